module attributes {ftm.stage = "rematerialize-pool-inputs"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x16x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 144, 9>} : (tensor<16x16x3x3xf32>) -> tensor<3x3x16x16xf32>
    %1 = tensor.empty() : tensor<3x3x16x16xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x16xf32>) outs(%1 : tensor<3x3x16x16xf32>) -> tensor<3x3x16x16xf32>
    %3 = "ftm.view"(%2) {offset = 0 : i64, strides = array<i64: 128, 1, 16, 768, 256>} : (tensor<3x3x16x16xf32>) -> tensor<2x16x8x3x3xf32>
    %4 = tensor.empty() : tensor<2x16x8x3x3xf32>
    %5 = linalg.copy ins(%3 : tensor<2x16x8x3x3xf32>) outs(%4 : tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x3xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<2x16x15x15xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<2x16x15x15xf32>) -> tensor<2x16x15x15xf32>
    %9 = "ftm.update"(%8, %arg0) {offset = 0 : i64, strides = array<i64: 3600, 225, 15, 1>} : (tensor<2x16x15x15xf32>, tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %10 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8xf32>
    %11 = "ftm.view"(%5) {offset = 4 : i64, strides = array<i64: 1152, 72, 9>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8xf32>
    %12 = tensor.empty() : tensor<1x1xi8>
    %13 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %14 = linalg.fill ins(%6 : f32) outs(%13 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%10, %11, %12 : tensor<2x2x14x14x8xf32>, tensor<2x16x8xf32>, tensor<1x1xi8>) outs(%14 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %16 = arith.mulf %in0, %in1 : f32
      %17 = arith.addf %out0, %16 : f32
      linalg.yield %17 : f32
    } -> tensor<2x2x16x14x14xf32>
    %18 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2xf32>
    %19 = "ftm.view"(%5) {offset = 5 : i64, strides = array<i64: 1152, 72, 9, -2>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x2xf32>
    %20 = tensor.empty() : tensor<1xi8>
    %21 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %22 = linalg.fill ins(%6 : f32) outs(%21 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%18, %19, %20 : tensor<2x2x14x14x8x2xf32>, tensor<2x16x8x2xf32>, tensor<1xi8>) outs(%22 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %24 = arith.mulf %in0, %in1 : f32
      %25 = arith.addf %out0, %24 : f32
      linalg.yield %25 : f32
    } -> tensor<2x2x16x14x14xf32>
    %26 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %27 = "ftm.view"(%15) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %28 = "ftm.update"(%26, %27) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %29 = "ftm.view"(%23) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %30 = "ftm.update"(%28, %29) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %31 = "ftm.view"(%30) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %32 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %33 = linalg.copy ins(%31 : tensor<2x32x14x14x2xf32>) outs(%32 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %34 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 15>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2xf32>
    %35 = "ftm.view"(%5) {offset = 7 : i64, strides = array<i64: 1152, 72, 9, -6>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x2xf32>
    %36 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %37 = linalg.fill ins(%6 : f32) outs(%36 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %38 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%34, %35, %20 : tensor<2x2x14x14x8x2xf32>, tensor<2x16x8x2xf32>, tensor<1xi8>) outs(%37 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %39 = arith.mulf %in0, %in1 : f32
      %40 = arith.addf %out0, %39 : f32
      linalg.yield %40 : f32
    } -> tensor<2x2x16x14x14xf32>
    %41 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2x2xf32>
    %42 = "ftm.view"(%5) {offset = 8 : i64, strides = array<i64: 1152, 72, 9, -6, -2>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x2x2xf32>
    %43 = tensor.empty() : tensor<2x2x16x14x14xf32>
    %44 = linalg.fill ins(%6 : f32) outs(%43 : tensor<2x2x16x14x14xf32>) -> tensor<2x2x16x14x14xf32>
    %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%41, %42 : tensor<2x2x14x14x8x2x2xf32>, tensor<2x16x8x2x2xf32>) outs(%44 : tensor<2x2x16x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %46 = arith.mulf %in0, %in1 : f32
      %47 = arith.addf %out0, %46 : f32
      linalg.yield %47 : f32
    } -> tensor<2x2x16x14x14xf32>
    %48 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %49 = "ftm.view"(%38) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %50 = "ftm.update"(%48, %49) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %51 = "ftm.view"(%45) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x16x14x14xf32>) -> tensor<2x32x14x14xf32>
    %52 = "ftm.update"(%50, %51) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %53 = "ftm.view"(%52) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %54 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %55 = linalg.copy ins(%53 : tensor<2x32x14x14x2xf32>) outs(%54 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %56 = tensor.empty() : tensor<2x32x28x28xf32>
    %57 = "ftm.update"(%56, %33) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %58 = "ftm.update"(%57, %55) {offset = 28 : i64, strides = array<i64: 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %58 : tensor<2x32x28x28xf32>
  }
}
