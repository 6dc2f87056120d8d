module attributes {ftm.stage = "merge-conv-transpose-phases"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x16x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 144, 9>} : (tensor<16x16x3x3xf32>) -> tensor<3x3x16x16xf32>
    %1 = tensor.empty() : tensor<3x3x16x16xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x16xf32>) outs(%1 : tensor<3x3x16x16xf32>) -> tensor<3x3x16x16xf32>
    %3 = "ftm.view"(%2) {offset = 0 : i64, strides = array<i64: 128, 1, 16, 768, 256>} : (tensor<3x3x16x16xf32>) -> tensor<2x16x8x3x3xf32>
    %4 = tensor.empty() : tensor<2x16x8x3x3xf32>
    %5 = linalg.copy ins(%3 : tensor<2x16x8x3x3xf32>) outs(%4 : tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x3xf32>
    %6 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %7 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2xf32>
    %8 = "ftm.border"(%5) {low = array<i64: 0, 0, 0, 0, 1>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x4xf32>
    %9 = "ftm.view"(%8) {offset = 6 : i64, strides = array<i64: 1536, 0, 96, 1, 12, -2>} : (tensor<2x16x8x3x4xf32>) -> tensor<2x1x16x2x8x2xf32>
    %10 = tensor.empty() : tensor<1xi8>
    %11 = arith.constant 0.0 : f32
    %12 = tensor.empty() : tensor<2x2x1x16x14x14x2xf32>
    %13 = linalg.fill ins(%11 : f32) outs(%12 : tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x2x1x16x14x14x2xf32>
    %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d4, d5, d7, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d1, d2, d3, d6, d7, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5, d6)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%7, %9, %10 : tensor<2x2x14x14x8x2xf32>, tensor<2x1x16x2x8x2xf32>, tensor<1xi8>) outs(%13 : tensor<2x2x1x16x14x14x2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %15 = arith.mulf %in0, %in1 : f32
      %16 = arith.addf %out0, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<2x2x1x16x14x14x2xf32>
    %17 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2x2xf32>
    %18 = "ftm.border"(%5) {low = array<i64: 0, 0, 0, 0, 1>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x4xf32>
    %19 = "ftm.view"(%18) {offset = 10 : i64, strides = array<i64: 1536, 0, 96, 1, 12, -8, -2>} : (tensor<2x16x8x3x4xf32>) -> tensor<2x1x16x2x8x2x2xf32>
    %20 = tensor.empty() : tensor<2x2x1x16x14x14x2xf32>
    %21 = linalg.fill ins(%11 : f32) outs(%20 : tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x2x1x16x14x14x2xf32>
    %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d4, d5, d7, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d1, d2, d3, d6, d7, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5, d6)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%17, %19 : tensor<2x2x14x14x8x2x2xf32>, tensor<2x1x16x2x8x2x2xf32>) outs(%21 : tensor<2x2x1x16x14x14x2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %23 = arith.mulf %in0, %in1 : f32
      %24 = arith.addf %out0, %23 : f32
      linalg.yield %24 : f32
    } -> tensor<2x2x1x16x14x14x2xf32>
    %25 = tensor.empty() : tensor<2x32x28x28xf32>
    %26 = "ftm.view"(%14) {offset = 0 : i64, strides = array<i64: 12544, 392, 28, 2, 1>} : (tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %27 = "ftm.update"(%25, %26) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %28 = "ftm.view"(%22) {offset = 0 : i64, strides = array<i64: 12544, 392, 28, 2, 1>} : (tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %29 = "ftm.update"(%27, %28) {offset = 28 : i64, strides = array<i64: 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %29 : tensor<2x32x28x28xf32>
  }
}
