module attributes {ftm.stage = "fuse-interior-padding"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 288, 9>} : (tensor<16x32x3x3xf32>) -> tensor<3x3x16x32xf32>
    %1 = tensor.empty() : tensor<3x3x16x32xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x32xf32>) outs(%1 : tensor<3x3x16x32xf32>) -> tensor<3x3x16x32xf32>
    %3 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 3600, 15, 1, 225, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x14x14x16x2xf32>
    %5 = "ftm.border"(%2) {low = array<i64: 0, 1, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<3x4x16x32xf32>
    %6 = "ftm.view"(%5) {offset = 3072 : i64, strides = array<i64: 1, 512, 32, -1024>} : (tensor<3x4x16x32xf32>) -> tensor<32x2x16x2xf32>
    %7 = tensor.empty() : tensor<1xi8>
    %8 = arith.constant 0.0 : f32
    %9 = tensor.empty() : tensor<2x1x32x14x14x2xf32>
    %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<2x1x32x14x14x2xf32>) -> tensor<2x1x32x14x14x2xf32>
    %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d6, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d2, d5, d6, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%4, %6, %7 : tensor<2x14x14x16x2xf32>, tensor<32x2x16x2xf32>, tensor<1xi8>) outs(%10 : tensor<2x1x32x14x14x2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %12 = arith.mulf %in0, %in1 : f32
      %13 = arith.addf %out0, %12 : f32
      linalg.yield %13 : f32
    } -> tensor<2x1x32x14x14x2xf32>
    %14 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 3600, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x14x14x16x2x2xf32>
    %15 = "ftm.border"(%2) {low = array<i64: 0, 1, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<3x4x16x32xf32>
    %16 = "ftm.view"(%15) {offset = 5120 : i64, strides = array<i64: 1, 512, 32, -4096, -1024>} : (tensor<3x4x16x32xf32>) -> tensor<32x2x16x2x2xf32>
    %17 = tensor.empty() : tensor<2x1x32x14x14x2xf32>
    %18 = linalg.fill ins(%8 : f32) outs(%17 : tensor<2x1x32x14x14x2xf32>) -> tensor<2x1x32x14x14x2xf32>
    %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d2, d5, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%14, %16 : tensor<2x14x14x16x2x2xf32>, tensor<32x2x16x2x2xf32>) outs(%18 : tensor<2x1x32x14x14x2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %20 = arith.mulf %in0, %in1 : f32
      %21 = arith.addf %out0, %20 : f32
      linalg.yield %21 : f32
    } -> tensor<2x1x32x14x14x2xf32>
    %22 = tensor.empty() : tensor<2x32x28x28xf32>
    %23 = "ftm.view"(%11) {offset = 0 : i64, strides = array<i64: 12544, 392, 28, 2, 1>} : (tensor<2x1x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %24 = "ftm.update"(%22, %23) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %25 = "ftm.view"(%19) {offset = 0 : i64, strides = array<i64: 12544, 392, 28, 2, 1>} : (tensor<2x1x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %26 = "ftm.update"(%24, %25) {offset = 28 : i64, strides = array<i64: 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %26 : tensor<2x32x28x28xf32>
  }
}
