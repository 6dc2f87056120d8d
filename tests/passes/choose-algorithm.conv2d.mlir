// RUN: ftm-opt --choose-algorithm --machine host --cores 1 %s | filecheck %s
// RUN: ftm-opt --choose-algorithm --machine m7032 --cores 1 %s | filecheck %s --check-prefix=KEPT
// RUN: ftm-opt --choose-algorithm --tune conv2d=im2col --machine host %s | filecheck %s --check-prefix=KEPT
// RUN: ftm-opt --choose-algorithm --tune conv2d=winograd-4x4 --machine m7032 %s | filecheck %s --check-prefix=LARGE

// On the host, 3x3 windows of many channels are multiplied in the domain of Winograd's transform: 16 products of matrices for tiles of
// 2x2 results. The input without its padding is transposed, so that channels are innermost. The padded tensor is no longer needed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.conv_2d
// CHECK: -> tensor<16x256x1x256xf32>
// CHECK-NOT: linalg.conv_2d
// CHECK: return

// KEPT-LABEL: func.func @main
// KEPT: %[[RESULT:[0-9]+]] = linalg.conv_2d_nchw_fchw
// KEPT-NEXT: return %[[RESULT]]

// LARGE-LABEL: func.func @main
// LARGE: -> tensor<36x64x1x256xf32>
// LARGE-NOT: linalg.conv_2d
// LARGE: return

module attributes {ftm.stage = "x"} {
  func.func @main(%arg0: tensor<16x256x8x8xf32>, %arg1: tensor<256x256x3x3xf32>) -> tensor<16x256x8x8xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<16x256x10x10xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<16x256x10x10xf32>) -> tensor<16x256x10x10xf32>
    %3 = "ftm.update"(%2, %arg0) {offset = 11 : i64, strides = array<i64: 25600, 100, 10, 1>} : (tensor<16x256x10x10xf32>, tensor<16x256x8x8xf32>) -> tensor<16x256x10x10xf32>
    %4 = tensor.empty() : tensor<16x256x8x8xf32>
    %5 = linalg.fill ins(%0 : f32) outs(%4 : tensor<16x256x8x8xf32>) -> tensor<16x256x8x8xf32>
    %6 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %arg1 : tensor<16x256x10x10xf32>, tensor<256x256x3x3xf32>) outs(%5 : tensor<16x256x8x8xf32>) -> tensor<16x256x8x8xf32>
    return %6 : tensor<16x256x8x8xf32>
  }
}
