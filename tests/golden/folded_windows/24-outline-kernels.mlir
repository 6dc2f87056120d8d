module attributes {ftm.stage = "outline-kernels", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [2, 16, 14, 14]], [\"b1\", \"f32\", [2, 32, 28, 28]], [\"b2\", \"f32\", [16, 32, 3, 3]]], \"scalars\": [], \"outputs\": [[\"o0\", \"f32\", [2, 32, 28, 28], \"\"]], \"consts\": [], \"arena\": [], \"windows\": [], \"arena_bytes\": 0}"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %1 = "ftm.kernel"() ({
      %0 = "ftm.conv_transpose"(%arg0, %arg2) {dilation = "1,1", padding = "1,1", stride = "2,2"} : (tensor<2x16x14x14xf32>, tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32>
      "ftm.yield"(%0) : (tensor<2x32x28x28xf32>) -> ()
    }) {kind = "fold", inputs = ["b0", "b2"], outputs = ["o0"], call = "kernel_0, b0[0], b2[0], o0[0]"} : () -> (tensor<2x32x28x28xf32>)
    return %1 : tensor<2x32x28x28xf32>
  }
}
