module {
  func.func @main(%arg0: tensor<4x16x8x8xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x12x5x5xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 5, 1, 300, 25>} : (tensor<16x12x5x5xf32>) -> tensor<5x5x16x12xf32>
    %1 = tensor.empty() : tensor<5x5x16x12xf32>
    %2 = linalg.copy ins(%0 : tensor<5x5x16x12xf32>) outs(%1 : tensor<5x5x16x12xf32>) -> tensor<5x5x16x12xf32>
    %3 = "ftm.view"(%2) {offset = 0 : i64, strides = array<i64: 96, 1, 12, 960, 192>} : (tensor<5x5x16x12xf32>) -> tensor<2x12x8x5x5xf32>
    %4 = tensor.empty() : tensor<2x12x8x5x5xf32>
    %5 = linalg.copy ins(%3 : tensor<2x12x8x5x5xf32>) outs(%4 : tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x5x5xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<4x16x10x10xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<4x16x10x10xf32>) -> tensor<4x16x10x10xf32>
    %9 = "ftm.update"(%8, %arg0) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>, tensor<4x16x8x8xf32>) -> tensor<4x16x10x10xf32>
    %10 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %11 = "ftm.view"(%5) {offset = 24 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %12 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %13 = linalg.fill ins(%6 : f32) outs(%12 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%10, %11 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%13 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %15 = arith.mulf %in0, %in1 : f32
      %16 = arith.addf %out0, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<4x2x12x8x8xf32>
    %17 = "ftm.view"(%9) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 0>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x1xf32>
    %18 = "ftm.view"(%5) {offset = 22 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %19 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %20 = linalg.fill ins(%6 : f32) outs(%19 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%17, %18 : tensor<4x2x8x8x8x2x1xf32>, tensor<2x12x8x2xf32>) outs(%20 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %22 = arith.mulf %in0, %in1 : f32
      %23 = arith.addf %out0, %22 : f32
      linalg.yield %23 : f32
    } -> tensor<4x2x12x8x8xf32>
    %24 = "ftm.view"(%9) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %25 = "ftm.view"(%5) {offset = 23 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %26 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %27 = linalg.fill ins(%6 : f32) outs(%26 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%24, %25 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%27 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %29 = arith.mulf %in0, %in1 : f32
      %30 = arith.addf %out0, %29 : f32
      linalg.yield %30 : f32
    } -> tensor<4x2x12x8x8xf32>
    %31 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %32 = "ftm.view"(%14) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %33 = "ftm.update"(%31, %32) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %34 = "ftm.view"(%21) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %35 = "ftm.update"(%33, %34) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %36 = "ftm.view"(%28) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %37 = "ftm.update"(%35, %36) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %38 = "ftm.view"(%37) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %39 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %40 = linalg.copy ins(%38 : tensor<4x24x8x8x3xf32>) outs(%39 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %41 = "ftm.view"(%9) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 0, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x1x2xf32>
    %42 = "ftm.view"(%5) {offset = 14 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %43 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %44 = linalg.fill ins(%6 : f32) outs(%43 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%41, %42 : tensor<4x2x8x8x8x1x2xf32>, tensor<2x12x8x2xf32>) outs(%44 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %46 = arith.mulf %in0, %in1 : f32
      %47 = arith.addf %out0, %46 : f32
      linalg.yield %47 : f32
    } -> tensor<4x2x12x8x8xf32>
    %48 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 0, 0>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x1x1xf32>
    %49 = "ftm.view"(%5) {offset = 12 : i64, strides = array<i64: 2400, 200, 25>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8xf32>
    %50 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %51 = linalg.fill ins(%6 : f32) outs(%50 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %52 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%48, %49 : tensor<4x2x8x8x8x1x1xf32>, tensor<2x12x8xf32>) outs(%51 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %53 = arith.mulf %in0, %in1 : f32
      %54 = arith.addf %out0, %53 : f32
      linalg.yield %54 : f32
    } -> tensor<4x2x12x8x8xf32>
    %55 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 0, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x1x2xf32>
    %56 = "ftm.view"(%5) {offset = 13 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %57 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %58 = linalg.fill ins(%6 : f32) outs(%57 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %59 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%55, %56 : tensor<4x2x8x8x8x1x2xf32>, tensor<2x12x8x2xf32>) outs(%58 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %60 = arith.mulf %in0, %in1 : f32
      %61 = arith.addf %out0, %60 : f32
      linalg.yield %61 : f32
    } -> tensor<4x2x12x8x8xf32>
    %62 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %63 = "ftm.view"(%45) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %64 = "ftm.update"(%62, %63) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %65 = "ftm.view"(%52) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %66 = "ftm.update"(%64, %65) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %67 = "ftm.view"(%59) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %68 = "ftm.update"(%66, %67) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %69 = "ftm.view"(%68) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %70 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %71 = linalg.copy ins(%69 : tensor<4x24x8x8x3xf32>) outs(%70 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %72 = "ftm.view"(%9) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %73 = "ftm.view"(%5) {offset = 19 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %74 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %75 = linalg.fill ins(%6 : f32) outs(%74 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %76 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%72, %73 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%75 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %77 = arith.mulf %in0, %in1 : f32
      %78 = arith.addf %out0, %77 : f32
      linalg.yield %78 : f32
    } -> tensor<4x2x12x8x8xf32>
    %79 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 0>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x1xf32>
    %80 = "ftm.view"(%5) {offset = 17 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %81 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %82 = linalg.fill ins(%6 : f32) outs(%81 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %83 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%79, %80 : tensor<4x2x8x8x8x2x1xf32>, tensor<2x12x8x2xf32>) outs(%82 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %84 = arith.mulf %in0, %in1 : f32
      %85 = arith.addf %out0, %84 : f32
      linalg.yield %85 : f32
    } -> tensor<4x2x12x8x8xf32>
    %86 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %87 = "ftm.view"(%5) {offset = 18 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %88 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %89 = linalg.fill ins(%6 : f32) outs(%88 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %90 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%86, %87 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%89 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %91 = arith.mulf %in0, %in1 : f32
      %92 = arith.addf %out0, %91 : f32
      linalg.yield %92 : f32
    } -> tensor<4x2x12x8x8xf32>
    %93 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %94 = "ftm.view"(%76) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %95 = "ftm.update"(%93, %94) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %96 = "ftm.view"(%83) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %97 = "ftm.update"(%95, %96) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %98 = "ftm.view"(%90) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %99 = "ftm.update"(%97, %98) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %100 = "ftm.view"(%99) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %101 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %102 = linalg.copy ins(%100 : tensor<4x24x8x8x3xf32>) outs(%101 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %103 = tensor.empty() : tensor<4x24x24x24xf32>
    %104 = "ftm.update"(%103, %40) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %105 = "ftm.update"(%104, %71) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %106 = "ftm.update"(%105, %102) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %106 : tensor<4x24x24x24xf32>
  }
}
