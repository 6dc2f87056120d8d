// RUN: ftm-opt --fold-pad-into-load --machine m7032 --cores 2 %s | filecheck %s

// The convolution reads the image with a border that has no memory; the copy into zeros is gone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: ftm.update
// CHECK: %[[PADDED:[0-9]+]] = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x9x9xf32>) -> tensor<2x8x11x11xf32>
// CHECK-NOT: ftm.update
// CHECK: linalg.conv_2d_nchw_fchw
// CHECK-SAME: ins(%[[PADDED]], %arg1 :

module {
  func.func @main(%arg0: tensor<2x8x9x9xf32>, %arg1: tensor<16x8x3x3xf32>) -> tensor<2x16x9x9xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<2x8x11x11xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2x8x11x11xf32>) -> tensor<2x8x11x11xf32>
    %3 = "ftm.update"(%2, %arg0) {offset = 12 : i64, strides = array<i64: 968, 121, 11, 1>} : (tensor<2x8x11x11xf32>, tensor<2x8x9x9xf32>) -> tensor<2x8x11x11xf32>
    %4 = tensor.empty() : tensor<2x16x9x9xf32>
    %5 = linalg.fill ins(%0 : f32) outs(%4 : tensor<2x16x9x9xf32>) -> tensor<2x16x9x9xf32>
    %6 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %arg1 : tensor<2x8x11x11xf32>, tensor<16x8x3x3xf32>) outs(%5 : tensor<2x16x9x9xf32>) -> tensor<2x16x9x9xf32>
    return %6 : tensor<2x16x9x9xf32>
  }
}
