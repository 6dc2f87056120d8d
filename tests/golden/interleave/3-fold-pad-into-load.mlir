module attributes {ftm.stage = "fold-pad-into-load"} {
  func.func @main(%arg0: tensor<4x16x8x8xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x12x5x5xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 5, 1, 300, 25>} : (tensor<16x12x5x5xf32>) -> tensor<5x5x16x12xf32>
    %1 = tensor.empty() : tensor<5x5x16x12xf32>
    %2 = linalg.copy ins(%0 : tensor<5x5x16x12xf32>) outs(%1 : tensor<5x5x16x12xf32>) -> tensor<5x5x16x12xf32>
    %3 = "ftm.view"(%2) {offset = 0 : i64, strides = array<i64: 96, 1, 12, 960, 192>} : (tensor<5x5x16x12xf32>) -> tensor<2x12x8x5x5xf32>
    %4 = tensor.empty() : tensor<2x12x8x5x5xf32>
    %5 = linalg.copy ins(%3 : tensor<2x12x8x5x5xf32>) outs(%4 : tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x5x5xf32>
    %6 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<4x16x8x8xf32>) -> tensor<4x16x10x10xf32>
    %7 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %8 = "ftm.view"(%5) {offset = 24 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %9 = arith.constant 0.0 : f32
    %10 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %11 = linalg.fill ins(%9 : f32) outs(%10 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%7, %8 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%11 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %13 = arith.mulf %in0, %in1 : f32
      %14 = arith.addf %out0, %13 : f32
      linalg.yield %14 : f32
    } -> tensor<4x2x12x8x8xf32>
    %15 = "ftm.view"(%6) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %16 = "ftm.view"(%5) {offset = 22 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %17 = tensor.empty() : tensor<1xi8>
    %18 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %19 = linalg.fill ins(%9 : f32) outs(%18 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%15, %16, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%19 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %21 = arith.mulf %in0, %in1 : f32
      %22 = arith.addf %out0, %21 : f32
      linalg.yield %22 : f32
    } -> tensor<4x2x12x8x8xf32>
    %23 = "ftm.view"(%6) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %24 = "ftm.view"(%5) {offset = 23 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %25 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %26 = linalg.fill ins(%9 : f32) outs(%25 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%23, %24 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%26 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %28 = arith.mulf %in0, %in1 : f32
      %29 = arith.addf %out0, %28 : f32
      linalg.yield %29 : f32
    } -> tensor<4x2x12x8x8xf32>
    %30 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %31 = "ftm.view"(%12) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %32 = "ftm.update"(%30, %31) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %33 = "ftm.view"(%20) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %34 = "ftm.update"(%32, %33) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %35 = "ftm.view"(%27) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %36 = "ftm.update"(%34, %35) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %37 = "ftm.view"(%36) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %38 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %39 = linalg.copy ins(%37 : tensor<4x24x8x8x3xf32>) outs(%38 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %40 = "ftm.view"(%6) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %41 = "ftm.view"(%5) {offset = 14 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %42 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %43 = linalg.fill ins(%9 : f32) outs(%42 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %44 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%40, %41, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%43 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %45 = arith.mulf %in0, %in1 : f32
      %46 = arith.addf %out0, %45 : f32
      linalg.yield %46 : f32
    } -> tensor<4x2x12x8x8xf32>
    %47 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8xf32>
    %48 = "ftm.view"(%5) {offset = 12 : i64, strides = array<i64: 2400, 200, 25>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8xf32>
    %49 = tensor.empty() : tensor<1x1xi8>
    %50 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %51 = linalg.fill ins(%9 : f32) outs(%50 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %52 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%47, %48, %49 : tensor<4x2x8x8x8xf32>, tensor<2x12x8xf32>, tensor<1x1xi8>) outs(%51 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %53 = arith.mulf %in0, %in1 : f32
      %54 = arith.addf %out0, %53 : f32
      linalg.yield %54 : f32
    } -> tensor<4x2x12x8x8xf32>
    %55 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %56 = "ftm.view"(%5) {offset = 13 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %57 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %58 = linalg.fill ins(%9 : f32) outs(%57 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %59 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%55, %56, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%58 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %60 = arith.mulf %in0, %in1 : f32
      %61 = arith.addf %out0, %60 : f32
      linalg.yield %61 : f32
    } -> tensor<4x2x12x8x8xf32>
    %62 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %63 = "ftm.view"(%44) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %64 = "ftm.update"(%62, %63) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %65 = "ftm.view"(%52) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %66 = "ftm.update"(%64, %65) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %67 = "ftm.view"(%59) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<4x2x12x8x8xf32>) -> tensor<4x24x8x8xf32>
    %68 = "ftm.update"(%66, %67) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %69 = "ftm.view"(%68) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %70 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %71 = linalg.copy ins(%69 : tensor<4x24x8x8x3xf32>) outs(%70 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %72 = "ftm.view"(%6) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %73 = "ftm.view"(%5) {offset = 19 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %74 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %75 = linalg.fill ins(%9 : f32) outs(%74 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %76 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%72, %73 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%75 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %77 = arith.mulf %in0, %in1 : f32
      %78 = arith.addf %out0, %77 : f32
      linalg.yield %78 : f32
    } -> tensor<4x2x12x8x8xf32>
    %79 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %80 = "ftm.view"(%5) {offset = 17 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %81 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %82 = linalg.fill ins(%9 : f32) outs(%81 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %83 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%79, %80, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%82 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %84 = arith.mulf %in0, %in1 : f32
      %85 = arith.addf %out0, %84 : f32
      linalg.yield %85 : f32
    } -> tensor<4x2x12x8x8xf32>
    %86 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %87 = "ftm.view"(%5) {offset = 18 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %88 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %89 = linalg.fill ins(%9 : f32) outs(%88 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
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
    %104 = "ftm.update"(%103, %39) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %105 = "ftm.update"(%104, %71) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %106 = "ftm.update"(%105, %102) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %106 : tensor<4x24x24x24xf32>
  }
}
