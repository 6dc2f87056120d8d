module attributes {ftm.stage = "join-phases"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 288, 9>} : (tensor<16x32x3x3xf32>) -> tensor<3x3x16x32xf32>
    %1 = tensor.empty() : tensor<3x3x16x32xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x32xf32>) outs(%1 : tensor<3x3x16x32xf32>) -> tensor<3x3x16x32xf32>
    %3 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 3600, 15, 1, 225, 0, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x14x14x16x1x2xf32>
    %5 = "ftm.border"(%2) {low = array<i64: 0, 1, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<3x4x16x32xf32>
    %6 = "ftm.view"(%5) {offset = 3072 : i64, strides = array<i64: 0, 1, 512, 32, -1024>} : (tensor<3x4x16x32xf32>) -> tensor<1x32x2x16x2xf32>
    %7 = arith.constant 0.0 : f32
    %8 = tensor.empty() : tensor<2x1x32x14x14x2xf32>
    %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<2x1x32x14x14x2xf32>) -> tensor<2x1x32x14x14x2xf32>
    %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d1, d2, d5, d6, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%4, %6 : tensor<2x14x14x16x1x2xf32>, tensor<1x32x2x16x2xf32>) outs(%9 : tensor<2x1x32x14x14x2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %11 = arith.mulf %in0, %in1 : f32
      %12 = arith.addf %out0, %11 : f32
      linalg.yield %12 : f32
    } -> tensor<2x1x32x14x14x2xf32>
    %13 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 3600, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x14x14x16x2x2xf32>
    %14 = "ftm.border"(%2) {low = array<i64: 0, 1, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<3x4x16x32xf32>
    %15 = "ftm.view"(%14) {offset = 5120 : i64, strides = array<i64: 0, 1, 512, 32, -4096, -1024>} : (tensor<3x4x16x32xf32>) -> tensor<1x32x2x16x2x2xf32>
    %16 = tensor.empty() : tensor<2x1x32x14x14x2xf32>
    %17 = linalg.fill ins(%7 : f32) outs(%16 : tensor<2x1x32x14x14x2xf32>) -> tensor<2x1x32x14x14x2xf32>
    %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d1, d2, d5, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%13, %15 : tensor<2x14x14x16x2x2xf32>, tensor<1x32x2x16x2x2xf32>) outs(%17 : tensor<2x1x32x14x14x2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %19 = arith.mulf %in0, %in1 : f32
      %20 = arith.addf %out0, %19 : f32
      linalg.yield %20 : f32
    } -> tensor<2x1x32x14x14x2xf32>
    %21 = tensor.empty() : tensor<2x32x28x28xf32>
    %22 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 12544, 392, 28, 2, 1>} : (tensor<2x1x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %23 = "ftm.update"(%21, %22) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %24 = "ftm.view"(%18) {offset = 0 : i64, strides = array<i64: 12544, 392, 28, 2, 1>} : (tensor<2x1x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %25 = "ftm.update"(%23, %24) {offset = 28 : i64, strides = array<i64: 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %25 : tensor<2x32x28x28xf32>
  }
}
