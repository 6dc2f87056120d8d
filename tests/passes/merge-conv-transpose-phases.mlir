// RUN: ftm-opt --merge-conv-transpose-phases --machine m7032 --cores 2 %s | filecheck %s

// Two convolutions become one product, whose phases are its innermost columns, and nothing is left to interleave. The phase that
// lacks a tap reads a border of zeros around the weights.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.conv_2d_nchw_fchw
// CHECK: %[[WEIGHTS:[0-9]+]] = "ftm.border"(%arg1) {low = array<i64: 1, 0, 0>}
// CHECK: "ftm.view"(%[[WEIGHTS]])
// CHECK: %[[JOINED:[0-9]+]] = linalg.generic
// CHECK-SAME: outs({{.*}} : tensor<2x1x32x14x14x2xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NOT: linalg.copy
// CHECK: %[[PLACED:[0-9]+]] = "ftm.view"(%[[JOINED]])
// CHECK: "ftm.update"({{%[0-9]+}}, %[[PLACED]])

module {
  func.func @main(%arg0: tensor<2x16x14x15xf32>, %arg1: tensor<3x16x32xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 3360, 210, 15, 1>} : (tensor<2x16x14x15xf32>) -> tensor<2x16x14x14xf32>
    %1 = "ftm.view"(%arg1) {offset = 512 : i64, strides = array<i64: 1, 32, 0, 0>} : (tensor<3x16x32xf32>) -> tensor<32x16x1x1xf32>
    %2 = arith.constant 0.0 : f32
    %3 = tensor.empty() : tensor<2x32x14x14xf32>
    %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %5 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %1 : tensor<2x16x14x14xf32>, tensor<32x16x1x1xf32>) outs(%4 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %6 = "ftm.view"(%arg1) {offset = 1024 : i64, strides = array<i64: 1, 32, 0, -1024>} : (tensor<3x16x32xf32>) -> tensor<32x16x1x2xf32>
    %7 = tensor.empty() : tensor<2x32x14x14xf32>
    %8 = linalg.fill ins(%2 : f32) outs(%7 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %9 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%arg0, %6 : tensor<2x16x14x15xf32>, tensor<32x16x1x2xf32>) outs(%8 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %10 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %11 = "ftm.update"(%10, %5) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %12 = "ftm.update"(%11, %9) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %13 = "ftm.view"(%12) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %14 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %15 = linalg.copy ins(%13 : tensor<2x32x14x14x2xf32>) outs(%14 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %16 = tensor.empty() : tensor<2x32x28x28xf32>
    %17 = linalg.fill ins(%2 : f32) outs(%16 : tensor<2x32x28x28xf32>) -> tensor<2x32x28x28xf32>
    %18 = "ftm.update"(%17, %15) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %18 : tensor<2x32x28x28xf32>
  }
}
