// RUN: ftm-opt --fuse-pool-reduction --machine m7032 --cores 2 %s | filecheck %s

// What is stored is summed plane by plane where it is made; what is left adds up the planes of all images.
// CHECK-LABEL: func.func @main
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel"]
// CHECK: iterator_types = ["parallel", "parallel", "reduction", "reduction"]
// CHECK: -> tensor<8x4xf32>
// CHECK: {kind = "line-buffer-with-reduction"} : () -> (tensor<4x8x64x64xf32>, tensor<8x4xf32>)
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: {kind = "loop-nest", one_core} : () -> (tensor<8xf32>)

module attributes {ftm.stage = "line-buffer-pooling"} {
  func.func @main(%arg0: tensor<4x8x129x129xf32>, %arg1: tensor<8xf32>) -> (tensor<4x8x64x64xf32>, tensor<8xf32>) attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32", "f32"]} {
    %10 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 133128, 16641, 258, 2, 129, 1>} : (tensor<4x8x129x129xf32>) -> tensor<4x8x64x64x3x3xf32>
      %1 = arith.constant 0xFF800000 : f32
      %2 = tensor.empty() : tensor<4x8x64x64xf32>
      %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<4x8x64x64xf32>) -> tensor<4x8x64x64xf32>
      %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%0 : tensor<4x8x64x64x3x3xf32>) outs(%3 : tensor<4x8x64x64xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %5 = arith.maximumf %out0, %in0 : f32
        linalg.yield %5 : f32
      } -> tensor<4x8x64x64xf32>
      %6 = tensor.empty() : tensor<4x8x64x64xf32>
      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%4, %arg1 : tensor<4x8x64x64xf32>, tensor<8xf32>) outs(%6 : tensor<4x8x64x64xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %8 = arith.mulf %in0, %in1 : f32
        linalg.yield %8 : f32
      } -> tensor<4x8x64x64xf32>
      "ftm.yield"(%7) : (tensor<4x8x64x64xf32>) -> ()
    }) {kind = "line-buffer"} : () -> (tensor<4x8x64x64xf32>)
    %20 = "ftm.kernel"() ({
      %11 = arith.constant 0.0 : f32
      %12 = tensor.empty() : tensor<8xf32>
      %13 = linalg.fill ins(%11 : f32) outs(%12 : tensor<8xf32>) -> tensor<8xf32>
      %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%10 : tensor<4x8x64x64xf32>) outs(%13 : tensor<8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %15 = arith.addf %out0, %in0 : f32
        linalg.yield %15 : f32
      } -> tensor<8xf32>
      "ftm.yield"(%14) : (tensor<8xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<8xf32>)
    return %10, %20 : tensor<4x8x64x64xf32>, tensor<8xf32>
  }
}
