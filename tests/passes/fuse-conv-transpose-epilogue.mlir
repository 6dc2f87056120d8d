// RUN: ftm-opt --fuse-conv-transpose-epilogue --machine m7032 --cores 8 %s | filecheck %s

// What masks the gradient is computed behind the sums of windows, and the gradient that is not masked goes nowhere.
// CHECK-LABEL: func.func @main
// CHECK: "ftm.kernel"() ({
// CHECK-NEXT: "ftm.conv_transpose"
// CHECK-NOT: "ftm.kernel"
// CHECK: arith.select
// CHECK: {kind = "col2im", schedule = "depth=2 {{.*}}"} : () -> (tensor<16x64x56x56xf32>)
// CHECK-NOT: "ftm.kernel"

module attributes {ftm.stage = "fuse-conv-backward"} {
  func.func @main(%arg0: tensor<16x128x28x28xf32>, %arg1: tensor<16x64x56x56xf32>, %arg2: tensor<128x64x3x3xf32>) -> tensor<16x64x56x56xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %1 = "ftm.kernel"() ({
      %0 = "ftm.conv_transpose"(%arg0, %arg2) {stride = "2,2", dilation = "1,1", padding = "1,1"} : (tensor<16x128x28x28xf32>, tensor<128x64x3x3xf32>) -> tensor<16x64x56x56xf32>
      "ftm.yield"(%0) : (tensor<16x64x56x56xf32>) -> ()
    }) {kind = "col2im"} : () -> (tensor<16x64x56x56xf32>)
    %7 = "ftm.kernel"() ({
      %2 = tensor.empty() : tensor<16x64x56x56xf32>
      %4 = arith.constant 0.0 : f32
      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %arg1 : tensor<16x64x56x56xf32>, tensor<16x64x56x56xf32>) outs(%2 : tensor<16x64x56x56xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %5 = arith.cmpf ole, %in1, %4 : f32
        %6 = arith.select %5, %4, %in0 : f32
        linalg.yield %6 : f32
      } -> tensor<16x64x56x56xf32>
      "ftm.yield"(%3) : (tensor<16x64x56x56xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<16x64x56x56xf32>)
    return %7 : tensor<16x64x56x56xf32>
  }
}
