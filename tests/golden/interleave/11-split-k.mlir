module attributes {ftm.stage = "split-k"} {
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
    %31 = "ftm.update"(%30, %12) {offset = 0 : i64, strides = array<i64: 1536, 768, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %32 = "ftm.update"(%31, %20) {offset = 6144 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %33 = "ftm.update"(%32, %27) {offset = 12288 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %34 = "ftm.view"(%33) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %35 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %36 = linalg.copy ins(%34 : tensor<4x24x8x8x3xf32>) outs(%35 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %37 = "ftm.view"(%6) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %38 = "ftm.view"(%5) {offset = 14 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %39 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %40 = linalg.fill ins(%9 : f32) outs(%39 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %41 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%37, %38, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%40 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %42 = arith.mulf %in0, %in1 : f32
      %43 = arith.addf %out0, %42 : f32
      linalg.yield %43 : f32
    } -> tensor<4x2x12x8x8xf32>
    %44 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8xf32>
    %45 = "ftm.view"(%5) {offset = 12 : i64, strides = array<i64: 2400, 200, 25>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8xf32>
    %46 = tensor.empty() : tensor<1x1xi8>
    %47 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %48 = linalg.fill ins(%9 : f32) outs(%47 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %49 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%44, %45, %46 : tensor<4x2x8x8x8xf32>, tensor<2x12x8xf32>, tensor<1x1xi8>) outs(%48 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %50 = arith.mulf %in0, %in1 : f32
      %51 = arith.addf %out0, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<4x2x12x8x8xf32>
    %52 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %53 = "ftm.view"(%5) {offset = 13 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %54 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %55 = linalg.fill ins(%9 : f32) outs(%54 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %56 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%52, %53, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%55 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %57 = arith.mulf %in0, %in1 : f32
      %58 = arith.addf %out0, %57 : f32
      linalg.yield %58 : f32
    } -> tensor<4x2x12x8x8xf32>
    %59 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %60 = "ftm.update"(%59, %41) {offset = 0 : i64, strides = array<i64: 1536, 768, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %61 = "ftm.update"(%60, %49) {offset = 6144 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %62 = "ftm.update"(%61, %56) {offset = 12288 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %63 = "ftm.view"(%62) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %64 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %65 = linalg.copy ins(%63 : tensor<4x24x8x8x3xf32>) outs(%64 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %66 = "ftm.view"(%6) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %67 = "ftm.view"(%5) {offset = 19 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %68 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %69 = linalg.fill ins(%9 : f32) outs(%68 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %70 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%66, %67 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%69 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %71 = arith.mulf %in0, %in1 : f32
      %72 = arith.addf %out0, %71 : f32
      linalg.yield %72 : f32
    } -> tensor<4x2x12x8x8xf32>
    %73 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
    %74 = "ftm.view"(%5) {offset = 17 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
    %75 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %76 = linalg.fill ins(%9 : f32) outs(%75 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %77 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%73, %74, %17 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%76 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %78 = arith.mulf %in0, %in1 : f32
      %79 = arith.addf %out0, %78 : f32
      linalg.yield %79 : f32
    } -> tensor<4x2x12x8x8xf32>
    %80 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
    %81 = "ftm.view"(%5) {offset = 18 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
    %82 = tensor.empty() : tensor<4x2x12x8x8xf32>
    %83 = linalg.fill ins(%9 : f32) outs(%82 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
    %84 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%80, %81 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%83 : tensor<4x2x12x8x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %85 = arith.mulf %in0, %in1 : f32
      %86 = arith.addf %out0, %85 : f32
      linalg.yield %86 : f32
    } -> tensor<4x2x12x8x8xf32>
    %87 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %88 = "ftm.update"(%87, %70) {offset = 0 : i64, strides = array<i64: 1536, 768, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %89 = "ftm.update"(%88, %77) {offset = 6144 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %90 = "ftm.update"(%89, %84) {offset = 12288 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %91 = "ftm.view"(%90) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %92 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %93 = linalg.copy ins(%91 : tensor<4x24x8x8x3xf32>) outs(%92 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %94 = tensor.empty() : tensor<4x24x24x24xf32>
    %95 = "ftm.update"(%94, %36) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %96 = "ftm.update"(%95, %65) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %97 = "ftm.update"(%96, %93) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %97 : tensor<4x24x24x24xf32>
  }
}
