// RUN: ftm-opt --pack-operands --machine m7032 --cores 2 %s | filecheck %s

// The weights, whose taps lie innermost, are copied with the taps outermost, and the product reads the copy.
// CHECK-LABEL: func.func @main
// CHECK: %[[TURNED:[0-9]+]] = "ftm.view"(%arg2) {{.*}} -> tensor<3x3x48x40xf32>
// CHECK: %[[COPY:[0-9]+]] = linalg.copy ins(%[[TURNED]] : tensor<3x3x48x40xf32>)
// CHECK: %[[FACTOR:[0-9]+]] = "ftm.view"(%[[COPY]]) {{.*}} -> tensor<40x48x3x3xf32>
// CHECK: linalg.generic
// CHECK-SAME: ins({{%[0-9]+}}, %[[FACTOR]] :

module {
  func.func @main(%arg0: tensor<4x48x14x14xf32>, %arg1: tensor<4x40x14x14xf32>, %arg2: tensor<48x40x3x3xf32>) -> tensor<4x40x14x14xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<4x48x14x14xf32>) -> tensor<4x48x16x16xf32>
    %1 = "ftm.view"(%arg2) {offset = 8 : i64, strides = array<i64: 9, 360, -3, -1>} : (tensor<48x40x3x3xf32>) -> tensor<40x48x3x3xf32>
    %2 = arith.constant 0.0 : f32
    %3 = tensor.empty() : tensor<4x40x14x14xf32>
    %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<4x40x14x14xf32>) -> tensor<4x40x14x14xf32>
    %5 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %1 : tensor<4x48x16x16xf32>, tensor<40x48x3x3xf32>) outs(%4 : tensor<4x40x14x14xf32>) -> tensor<4x40x14x14xf32>
    return %5 : tensor<4x40x14x14xf32>
  }
}
