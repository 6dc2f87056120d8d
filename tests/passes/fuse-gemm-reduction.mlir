// RUN: ftm-opt --fuse-gemm-reduction --machine m7032 --cores 8 %s | filecheck %s

// The product's kernel sums each channel of each of its blocks, here of four lines; the other one adds these sums up.
// CHECK-LABEL: func.func @main
// CHECK: "ftm.kernel"() ({
// CHECK: linalg.conv_2d_nchw_fchw
// CHECK: iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel"]
// CHECK: {kind = "contraction-with-reduction", schedule = "depth=2 {{.*}}"} : () -> (tensor<8x64x112x112xf32>, tensor<8x28x64xf32>)
// CHECK: iterator_types = ["reduction", "reduction", "parallel"]
// CHECK-SAME: tensor<8x28x64xf32>
// CHECK: {kind = "loop-nest", one_core} : () -> (tensor<64xf32>)

module attributes {ftm.stage = "fuse-pool-reduction"} {
  func.func @main(%arg0: tensor<8x3x224x224xf32>, %arg1: tensor<64x3x7x7xf32>) -> (tensor<8x64x112x112xf32>, tensor<64xf32>) attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32", "f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 3, 3>} : (tensor<8x3x224x224xf32>) -> tensor<8x3x229x229xf32>
    %5 = "ftm.kernel"() ({
      %1 = arith.constant 0.0 : f32
      %2 = tensor.empty() : tensor<8x64x112x112xf32>
      %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<8x64x112x112xf32>) -> tensor<8x64x112x112xf32>
      %4 = linalg.conv_2d_nchw_fchw {strides = dense<[2, 2]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %arg1 : tensor<8x3x229x229xf32>, tensor<64x3x7x7xf32>) outs(%3 : tensor<8x64x112x112xf32>) -> tensor<8x64x112x112xf32>
      "ftm.yield"(%4) : (tensor<8x64x112x112xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<8x64x112x112xf32>)
    %11 = "ftm.kernel"() ({
      %6 = arith.constant 0.0 : f32
      %7 = tensor.empty() : tensor<64xf32>
      %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<64xf32>) -> tensor<64xf32>
      %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%5 : tensor<8x64x112x112xf32>) outs(%8 : tensor<64xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %10 = arith.addf %out0, %in0 : f32
        linalg.yield %10 : f32
      } -> tensor<64xf32>
      "ftm.yield"(%9) : (tensor<64xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<64xf32>)
    return %5, %11 : tensor<8x64x112x112xf32>, tensor<64xf32>
  }
}
