module attributes {ftm.stage = "schedule-kernels"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %1 = "ftm.kernel"() ({
      %0 = "ftm.conv_transpose"(%arg0, %arg2) {dilation = "1,1", padding = "1,1", stride = "2,2"} : (tensor<2x16x14x14xf32>, tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32>
      "ftm.yield"(%0) : (tensor<2x32x28x28xf32>) -> ()
    }) {kind = "fold"} : () -> (tensor<2x32x28x28xf32>)
    return %1 : tensor<2x32x28x28xf32>
  }
}
