module attributes {ftm.stage = "rematerialize-pool-inputs"} {
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
    %17 = "ftm.view"(%9) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %18 = "ftm.view"(%5) {offset = 22 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %19 = tensor.empty() : tensor<1xi8>
    %20 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %21 = linalg.fill ins(%6 : f32) outs(%20 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%17, %18, %19 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%21 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %23 = arith.mulf %in0, %in1 : f32
      %24 = arith.addf %out0, %23 : f32
      linalg.yield %24 : f32
    } -> tensor<4x2x12x8x8xf32>
    %25 = "ftm.view"(%9) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %26 = "ftm.view"(%5) {offset = 23 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %27 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %28 = linalg.fill ins(%6 : f32) outs(%27 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%25, %26 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%28 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %30 = arith.mulf %in0, %in1 : f32
      %31 = arith.addf %out0, %30 : f32
      linalg.yield %31 : f32
    } -> tensor<4x2x12x8x8xf32>
    %32 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %33 = "ftm.view"(%14) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %34 = "ftm.update"(%32, %33) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %35 = "ftm.view"(%22) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %36 = "ftm.update"(%34, %35) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %37 = "ftm.view"(%29) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %38 = "ftm.update"(%36, %37) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %39 = "ftm.view"(%38) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %40 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %41 = linalg.copy ins(%39 : tensor<4x24x8x8x3xf32>) outs(%40 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %42 = "ftm.view"(%9) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %43 = "ftm.view"(%5) {offset = 14 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %44 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %45 = linalg.fill ins(%6 : f32) outs(%44 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %46 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%42, %43, %19 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%45 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %47 = arith.mulf %in0, %in1 : f32
      %48 = arith.addf %out0, %47 : f32
      linalg.yield %48 : f32
    } -> tensor<4x2x12x8x8xf32>
    %49 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8xf32>
    %50 = "ftm.view"(%5) {offset = 12 : i64, strides = array<i64: 2400, 200, 25>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8xf32>
    %51 = tensor.empty() : tensor<1x1xi8>
    %52 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %53 = linalg.fill ins(%6 : f32) outs(%52 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %54 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%49, %50, %51 : tensor<4x2x8x8x8xf32>, tensor<2x12x8xf32>, tensor<1x1xi8>) outs(%53 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %55 = arith.mulf %in0, %in1 : f32
      %56 = arith.addf %out0, %55 : f32
      linalg.yield %56 : f32
    } -> tensor<4x2x12x8x8xf32>
    %57 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %58 = "ftm.view"(%5) {offset = 13 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %59 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %60 = linalg.fill ins(%6 : f32) outs(%59 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %61 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%57, %58, %19 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%60 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %62 = arith.mulf %in0, %in1 : f32
      %63 = arith.addf %out0, %62 : f32
      linalg.yield %63 : f32
    } -> tensor<4x2x12x8x8xf32>
    %64 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %65 = "ftm.view"(%46) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %66 = "ftm.update"(%64, %65) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %67 = "ftm.view"(%54) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %68 = "ftm.update"(%66, %67) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %69 = "ftm.view"(%61) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %70 = "ftm.update"(%68, %69) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %71 = "ftm.view"(%70) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %72 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %73 = linalg.copy ins(%71 : tensor<4x24x8x8x3xf32>) outs(%72 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %74 = "ftm.view"(%9) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %75 = "ftm.view"(%5) {offset = 19 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %76 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %77 = linalg.fill ins(%6 : f32) outs(%76 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %78 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%74, %75 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%77 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %79 = arith.mulf %in0, %in1 : f32
      %80 = arith.addf %out0, %79 : f32
      linalg.yield %80 : f32
    } -> tensor<4x2x12x8x8xf32>
    %81 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %82 = "ftm.view"(%5) {offset = 17 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %83 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %84 = linalg.fill ins(%6 : f32) outs(%83 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %85 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%81, %82, %19 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%84 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %86 = arith.mulf %in0, %in1 : f32
      %87 = arith.addf %out0, %86 : f32
      linalg.yield %87 : f32
    } -> tensor<4x2x12x8x8xf32>
    %88 = "ftm.view"(%9) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %89 = "ftm.view"(%5) {offset = 18 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %90 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %91 = linalg.fill ins(%6 : f32) outs(%90 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %92 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%88, %89 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%91 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %93 = arith.mulf %in0, %in1 : f32
      %94 = arith.addf %out0, %93 : f32
      linalg.yield %94 : f32
    } -> tensor<4x2x12x8x8xf32>
    %95 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %96 = "ftm.view"(%78) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %97 = "ftm.update"(%95, %96) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %98 = "ftm.view"(%85) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %99 = "ftm.update"(%97, %98) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %100 = "ftm.view"(%92) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %101 = "ftm.update"(%99, %100) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %102 = "ftm.view"(%101) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %103 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %104 = linalg.copy ins(%102 : tensor<4x24x8x8x3xf32>) outs(%103 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %105 = tensor.empty() : tensor<4x24x24x24xf32>
    %106 = "ftm.update"(%105, %41) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %107 = "ftm.update"(%106, %73) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %108 = "ftm.update"(%107, %104) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %108 : tensor<4x24x24x24xf32>
  }
}
