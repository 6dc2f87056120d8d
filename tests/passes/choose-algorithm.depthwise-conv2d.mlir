// RUN: ftm-opt --choose-algorithm --machine host %s | filecheck %s
// RUN: ftm-opt --choose-algorithm --machine m7032 %s | filecheck %s --check-prefix=KEPT

// On the host, one map adds up the nine taps of all windows. The input is padded into one line of planes, whose last windows may read
// two elements beyond it: 2 * 4 * 6 * 6 + 14. The results of windows across the end of a row are not copied.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.depthwise_conv_2d
// CHECK: "ftm.update"{{.*}} -> tensor<302xf32>
// CHECK: linalg.generic
// CHECK: "ftm.view"({{.*}}) {offset = 0 : i64, strides = array<i64: 36, 72, 6, 1>} : (tensor<4x2x36xf32>) -> tensor<2x4x4x4xf32>
// CHECK: return

// KEPT-LABEL: func.func @main
// KEPT: %[[RESULT:[0-9]+]] = linalg.depthwise_conv_2d_nchw_chw
// KEPT-NEXT: return %[[RESULT]]

module attributes {ftm.stage = "x"} {
  func.func @main(%arg0: tensor<2x4x4x4xf32>, %arg1: tensor<4x3x3xf32>) -> tensor<2x4x4x4xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<2x4x6x6xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %3 = "ftm.update"(%2, %arg0) {offset = 7 : i64, strides = array<i64: 144, 36, 6, 1>} : (tensor<2x4x6x6xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x6x6xf32>
    %4 = tensor.empty() : tensor<2x4x4x4xf32>
    %5 = linalg.fill ins(%0 : f32) outs(%4 : tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
    %6 = linalg.depthwise_conv_2d_nchw_chw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %arg1 : tensor<2x4x6x6xf32>, tensor<4x3x3xf32>) outs(%5 : tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
    return %6 : tensor<2x4x4x4xf32>
  }
}
