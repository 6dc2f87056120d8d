// RUN: ftm-opt --fuse-conv-backward --machine m7032 --cores 8 %s | filecheck %s

// What makes the gradient of the image, and what makes that of the weights and updates them, is one kernel, which reads the weights once.
// CHECK-LABEL: func.func @main
// CHECK: %[[KERNEL:[0-9]+]]:3 = "ftm.kernel"() ({
// CHECK: "ftm.conv_transpose"(%arg0, %arg2)
// CHECK: linalg.generic
// CHECK: arith.subf
// CHECK: }) {kind = "conv-backward"}
// CHECK-NOT: "ftm.kernel"
// CHECK: return %[[KERNEL]]#0, %[[KERNEL]]#1, %[[KERNEL]]#2

module attributes {ftm.stage = "fuse-attention"} {
  func.func @main(%arg0: tensor<16x512x1x1xf32>, %arg1: tensor<16x512x1x1xf32>, %arg2: tensor<512x512x3x3xf32>, %arg3: tensor<512x512x3x3xf32>, %arg4: f64, %arg5: f64) -> (tensor<16x512x1x1xf32>, tensor<512x512x3x3xf32>, tensor<512x512x3x3xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %1 = "ftm.kernel"() ({
      %0 = "ftm.conv_transpose"(%arg0, %arg2) {stride = "1,1", dilation = "1,1", padding = "1,1"} : (tensor<16x512x1x1xf32>, tensor<512x512x3x3xf32>) -> tensor<16x512x1x1xf32>
      "ftm.yield"(%0) : (tensor<16x512x1x1xf32>) -> ()
    }) {kind = "col2im"} : () -> (tensor<16x512x1x1xf32>)
    %2 = "ftm.border"(%arg1) {low = array<i64: 0, 0, 1, 1>} : (tensor<16x512x1x1xf32>) -> tensor<16x512x3x3xf32>
    %23:2 = "ftm.kernel"() ({
      %3 = "ftm.view"(%2) {offset = 0 : i64, strides = array<i64: 9, 3, 1, 4608, 0, 0>} : (tensor<16x512x3x3xf32>) -> tensor<512x3x3x16x1x1xf32>
      %4 = arith.constant 0.0 : f32
      %5 = tensor.empty() : tensor<1x512x512x3x3xf32>
      %6 = linalg.fill ins(%4 : f32) outs(%5 : tensor<1x512x512x3x3xf32>) -> tensor<1x512x512x3x3xf32>
      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d1, 0, 0)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d2, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%arg0, %3 : tensor<16x512x1x1xf32>, tensor<512x3x3x16x1x1xf32>) outs(%6 : tensor<1x512x512x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %8 = arith.mulf %in0, %in1 : f32
        %9 = arith.addf %out0, %8 : f32
        linalg.yield %9 : f32
      } -> tensor<1x512x512x3x3xf32>
      %10 = tensor.empty() : tensor<512x512x3x3xf32>
      %12 = arith.constant 1.0 : f32
      %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg3, %7 : tensor<512x512x3x3xf32>, tensor<1x512x512x3x3xf32>) outs(%10 : tensor<512x512x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %13 = arith.truncf %arg4 : f64 to f32
        %14 = arith.mulf %in0, %13 : f32
        %15 = arith.mulf %in1, %12 : f32
        %16 = arith.addf %14, %15 : f32
        linalg.yield %16 : f32
      } -> tensor<512x512x3x3xf32>
      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11 : tensor<512x512x3x3xf32>) outs(%10 : tensor<512x512x3x3xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %18 = arith.truncf %arg5 : f64 to f32
        %19 = arith.mulf %in0, %18 : f32
        linalg.yield %19 : f32
      } -> tensor<512x512x3x3xf32>
      %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2, %17 : tensor<512x512x3x3xf32>, tensor<512x512x3x3xf32>) outs(%10 : tensor<512x512x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %21 = arith.mulf %in1, %12 : f32
        %22 = arith.subf %in0, %21 : f32
        linalg.yield %22 : f32
      } -> tensor<512x512x3x3xf32>
      "ftm.yield"(%11, %20) : (tensor<512x512x3x3xf32>, tensor<512x512x3x3xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<512x512x3x3xf32>, tensor<512x512x3x3xf32>)
    return %1, %23#0, %23#1 : tensor<16x512x1x1xf32>, tensor<512x512x3x3xf32>, tensor<512x512x3x3xf32>
  }
}
