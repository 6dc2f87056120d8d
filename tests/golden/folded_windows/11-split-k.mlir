module attributes {ftm.stage = "split-k"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.conv_transpose"(%arg0, %arg2) {dilation = "1,1", padding = "1,1", stride = "2,2"} : (tensor<2x16x14x14xf32>, tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32>
    return %0 : tensor<2x32x28x28xf32>
  }
}
