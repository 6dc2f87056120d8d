module attributes {ftm.stage = "conv-transpose-to-col2im"} {
  func.func @main(%arg0: tensor<524288xf32>, %arg1: tensor<786432xf32>) -> tensor<32x48xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1, 32>} : (tensor<524288xf32>) -> tensor<32x16384xf32>
    %1 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 48, 1>} : (tensor<786432xf32>) -> tensor<16384x48xf32>
    %2 = arith.constant 0.0 : f32
    %3 = tensor.empty() : tensor<32x48xf32>
    %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<32x48xf32>) -> tensor<32x48xf32>
    %5 = linalg.matmul ins(%0, %1 : tensor<32x16384xf32>, tensor<16384x48xf32>) outs(%4 : tensor<32x48xf32>) -> tensor<32x48xf32>
    return %5 : tensor<32x48xf32>
  }
}
