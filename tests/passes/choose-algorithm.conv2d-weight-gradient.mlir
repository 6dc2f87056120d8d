// RUN: ftm-opt --choose-algorithm --machine host --cores 1 %s | filecheck %s
// RUN: ftm-opt --choose-algorithm --machine m7032 --cores 1 %s | filecheck %s --check-prefix=KEPT
// RUN: ftm-opt --choose-algorithm --tune conv2d-weight-gradient=im2col --machine host %s | filecheck %s --check-prefix=KEPT
// RUN: ftm-opt --choose-algorithm --tune conv2d-weight-gradient=winograd-2x2 --machine m7032 %s | filecheck %s --check-prefix=SMALL

// On the host, the gradient of 3x3 windows of many channels is 36 products of matrices: a row for each filter, a column for each channel
// of the group, and a sum over tiles of 4x4 elements of the gradient.
// CHECK-LABEL: func.func @main
// CHECK-NOT: library_call
// CHECK: -> tensor<36x2x128x64xf32>
// CHECK: } -> tensor<2x128x64x3x3xf32>
// CHECK-NEXT: return

// KEPT-LABEL: func.func @main
// KEPT-NOT: library_call
// KEPT: linalg.generic
// KEPT-NOT: linalg.generic
// KEPT: return

// SMALL-LABEL: func.func @main
// SMALL: -> tensor<16x2x128x64xf32>
// SMALL: return

module attributes {ftm.stage = "x"} {
  func.func @main(%arg0: tensor<16x2x64x10x10xf32>, %arg1: tensor<16x2x128x8x8xf32>) -> tensor<2x128x64x3x3xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<2x128x64x3x3xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2x128x64x3x3xf32>) -> tensor<2x128x64x3x3xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d0, d1, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d0, d2, d6 + d3, d7 + d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"], library_call = "ftm.conv_2d_weight_gradient", strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%arg1, %arg0 : tensor<16x2x128x8x8xf32>, tensor<16x2x64x10x10xf32>) outs(%2 : tensor<2x128x64x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %4 = arith.mulf %in0, %in1 : f32
      %5 = arith.addf %out0, %4 : f32
      linalg.yield %5 : f32
    } -> tensor<2x128x64x3x3xf32>
    return %3 : tensor<2x128x64x3x3xf32>
  }
}
