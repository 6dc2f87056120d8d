// RUN: ftm-opt --fuse-gemm-prologue --machine m7032 --cores 8 %s | filecheck %s

// What scales the left factor is read by the product alone: one kernel, which fetches both tensors that the factor is made of.
// CHECK-LABEL: func.func @main
// CHECK: "ftm.kernel"() ({
// CHECK-NOT: "ftm.kernel"
// CHECK: arith.mulf
// CHECK-NOT: "ftm.kernel"
// CHECK: linalg.matmul
// CHECK: {kind = "contraction-with-prologue", schedule = "depth=2 {{.*}}"} : () -> (tensor<64x64xf32>)
// CHECK-NOT: "ftm.kernel"

module attributes {ftm.stage = "fuse-conv-transpose-epilogue"} {
  func.func @main(%arg0: tensor<64x80000xf32>, %arg1: tensor<64x80000xf32>, %arg2: tensor<80000x64xf32>) -> tensor<64x64xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.kernel"() ({
      %1 = tensor.empty() : tensor<64x80000xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<64x80000xf32>, tensor<64x80000xf32>) outs(%1 : tensor<64x80000xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %3 = arith.mulf %in0, %in1 : f32
        linalg.yield %3 : f32
      } -> tensor<64x80000xf32>
      "ftm.yield"(%2) : (tensor<64x80000xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<64x80000xf32>)
    %4 = "ftm.kernel"() ({
      %5 = arith.constant 0.0 : f32
      %6 = tensor.empty() : tensor<64x64xf32>
      %7 = linalg.fill ins(%5 : f32) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %8 = linalg.matmul ins(%0, %arg2 : tensor<64x80000xf32>, tensor<80000x64xf32>) outs(%7 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%8) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<64x64xf32>)
    return %4 : tensor<64x64xf32>
  }
}
