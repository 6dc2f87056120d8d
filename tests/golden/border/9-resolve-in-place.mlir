module attributes {ftm.stage = "resolve-in-place"} {
  func.func @main(%arg0: tensor<2x8x9x9xf32>, %arg1: tensor<16x8x3x3xf32>) -> tensor<2x16x9x9xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x9x9xf32>) -> tensor<2x8x11x11xf32>
    %1 = arith.constant 0.0 : f32
    %2 = tensor.empty() : tensor<2x16x9x9xf32>
    %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<2x16x9x9xf32>) -> tensor<2x16x9x9xf32>
    %4 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %arg1 : tensor<2x8x11x11xf32>, tensor<16x8x3x3xf32>) outs(%3 : tensor<2x16x9x9xf32>) -> tensor<2x16x9x9xf32>
    return %4 : tensor<2x16x9x9xf32>
  }
}
