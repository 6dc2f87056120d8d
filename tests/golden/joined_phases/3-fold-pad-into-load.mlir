module attributes {ftm.stage = "fold-pad-into-load"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x16x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 144, 9>} : (tensor<16x16x3x3xf32>) -> tensor<3x3x16x16xf32>
    %1 = tensor.empty() : tensor<3x3x16x16xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x16xf32>) outs(%1 : tensor<3x3x16x16xf32>) -> tensor<3x3x16x16xf32>
    %3 = "ftm.view"(%2) {offset = 0 : i64, strides = array<i64: 128, 1, 16, 768, 256>} : (tensor<3x3x16x16xf32>) -> tensor<2x16x8x3x3xf32>
    %4 = tensor.empty() : tensor<2x16x8x3x3xf32>
    %5 = linalg.copy ins(%3 : tensor<2x16x8x3x3xf32>) outs(%4 : tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x3xf32>
    %6 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %7 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8xf32>
    %8 = "ftm.view"(%5) {offset = 4 : i64, strides = array<i64: 1152, 72, 9>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8xf32>
    %9 = tensor.empty() : tensor<1x1xi8>
    %10 = arith.constant 0.0 : f32
    %11 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %12 = linalg.fill ins(%10 : f32) outs(%11 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%7, %8, %9 : tensor<2x2x14x14x8xf32>, tensor<2x16x8xf32>, tensor<1x1xi8>) outs(%12 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %14 = arith.mulf %in0, %in1 : f32
      %15 = arith.addf %out0, %14 : f32
      linalg.yield %15 : f32
    } -> tensor<2x2x16x14x14xf32>
    %16 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2xf32>
    %17 = "ftm.view"(%5) {offset = 5 : i64, strides = array<i64: 1152, 72, 9, -2>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x2xf32>
    %18 = tensor.empty() : tensor<1xi8>
    %19 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %20 = linalg.fill ins(%10 : f32) outs(%19 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%16, %17, %18 : tensor<2x2x14x14x8x2xf32>, tensor<2x16x8x2xf32>, tensor<1xi8>) outs(%20 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %22 = arith.mulf %in0, %in1 : f32
      %23 = arith.addf %out0, %22 : f32
      linalg.yield %23 : f32
    } -> tensor<2x2x16x14x14xf32>
    %24 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %25 = "ftm.view"(%13) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %26 = "ftm.update"(%24, %25) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %27 = "ftm.view"(%21) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %28 = "ftm.update"(%26, %27) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %29 = "ftm.view"(%28) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %30 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %31 = linalg.copy ins(%29 : tensor<2x32x14x14x2xf32>) outs(%30 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %32 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 15>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2xf32>
    %33 = "ftm.view"(%5) {offset = 7 : i64, strides = array<i64: 1152, 72, 9, -6>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x2xf32>
    %34 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %35 = linalg.fill ins(%10 : f32) outs(%34 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %36 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%32, %33, %18 : tensor<2x2x14x14x8x2xf32>, tensor<2x16x8x2xf32>, tensor<1xi8>) outs(%35 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %37 = arith.mulf %in0, %in1 : f32
      %38 = arith.addf %out0, %37 : f32
      linalg.yield %38 : f32
    } -> tensor<2x2x16x14x14xf32>
    %39 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2x2xf32>
    %40 = "ftm.view"(%5) {offset = 8 : i64, strides = array<i64: 1152, 72, 9, -6, -2>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x2x2xf32>
    %41 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %42 = linalg.fill ins(%10 : f32) outs(%41 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %43 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%39, %40 : tensor<2x2x14x14x8x2x2xf32>, tensor<2x16x8x2x2xf32>) outs(%42 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %44 = arith.mulf %in0, %in1 : f32
      %45 = arith.addf %out0, %44 : f32
      linalg.yield %45 : f32
    } -> tensor<2x2x16x14x14xf32>
    %46 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %47 = "ftm.view"(%36) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %48 = "ftm.update"(%46, %47) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %49 = "ftm.view"(%43) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %50 = "ftm.update"(%48, %49) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %51 = "ftm.view"(%50) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %52 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %53 = linalg.copy ins(%51 : tensor<2x32x14x14x2xf32>) outs(%52 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %54 = tensor.empty() : tensor<2x32x28x28xf32>
    %55 = "ftm.update"(%54, %31) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %56 = "ftm.update"(%55, %53) {offset = 28 : i64, strides = array<i64: 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %56 : tensor<2x32x28x28xf32>
  }
}
