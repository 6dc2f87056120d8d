module attributes {ftm.stage = "fuse-conv-backward"} {
  func.func @main(%arg0: tensor<4x16x8x8xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x12x5x5xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 5, 1, 300, 25>} : (tensor<16x12x5x5xf32>) -> tensor<5x5x16x12xf32>
      %1 = tensor.empty() : tensor<5x5x16x12xf32>
      %2 = linalg.copy ins(%0 : tensor<5x5x16x12xf32>) outs(%1 : tensor<5x5x16x12xf32>) -> tensor<5x5x16x12xf32>
      "ftm.yield"(%2) : (tensor<5x5x16x12xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<5x5x16x12xf32>)
    %7 = "ftm.kernel"() ({
      %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 96, 1, 12, 960, 192>} : (tensor<5x5x16x12xf32>) -> tensor<2x12x8x5x5xf32>
      %5 = tensor.empty() : tensor<2x12x8x5x5xf32>
      %6 = linalg.copy ins(%4 : tensor<2x12x8x5x5xf32>) outs(%5 : tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x5x5xf32>
      "ftm.yield"(%6) : (tensor<2x12x8x5x5xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<2x12x8x5x5xf32>)
    %8 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<4x16x8x8xf32>) -> tensor<4x16x10x10xf32>
    %17 = "ftm.kernel"() ({
      %9 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
      %10 = "ftm.view"(%7) {offset = 24 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
      %11 = arith.constant 0.0 : f32
      %12 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %13 = linalg.fill ins(%11 : f32) outs(%12 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%9, %10 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%13 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %15 = arith.mulf %in0, %in1 : f32
        %16 = arith.addf %out0, %15 : f32
        linalg.yield %16 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%14) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %27 = "ftm.kernel"() ({
      %18 = "ftm.view"(%8) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
      %19 = "ftm.view"(%7) {offset = 22 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
      %20 = tensor.empty() : tensor<1xi8>
      %21 = arith.constant 0.0 : f32
      %22 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %23 = linalg.fill ins(%21 : f32) outs(%22 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %24 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%18, %19, %20 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%23 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %25 = arith.mulf %in0, %in1 : f32
        %26 = arith.addf %out0, %25 : f32
        linalg.yield %26 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%24) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %36 = "ftm.kernel"() ({
      %28 = "ftm.view"(%8) {offset = 1 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
      %29 = "ftm.view"(%7) {offset = 23 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
      %30 = arith.constant 0.0 : f32
      %31 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %32 = linalg.fill ins(%30 : f32) outs(%31 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %33 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%28, %29 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%32 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %34 = arith.mulf %in0, %in1 : f32
        %35 = arith.addf %out0, %34 : f32
        linalg.yield %35 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%33) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %37 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %38 = "ftm.update"(%37, %17) {offset = 0 : i64, strides = array<i64: 1536, 768, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %39 = "ftm.update"(%38, %27) {offset = 6144 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %40 = "ftm.update"(%39, %36) {offset = 12288 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %44 = "ftm.kernel"() ({
      %41 = "ftm.view"(%40) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
      %42 = tensor.empty() : tensor<4x24x8x8x3xf32>
      %43 = linalg.copy ins(%41 : tensor<4x24x8x8x3xf32>) outs(%42 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
      "ftm.yield"(%43) : (tensor<4x24x8x8x3xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<4x24x8x8x3xf32>)
    %54 = "ftm.kernel"() ({
      %45 = "ftm.view"(%8) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
      %46 = "ftm.view"(%7) {offset = 14 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
      %47 = tensor.empty() : tensor<1xi8>
      %48 = arith.constant 0.0 : f32
      %49 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %50 = linalg.fill ins(%48 : f32) outs(%49 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %51 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%45, %46, %47 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%50 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %52 = arith.mulf %in0, %in1 : f32
        %53 = arith.addf %out0, %52 : f32
        linalg.yield %53 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%51) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %64 = "ftm.kernel"() ({
      %55 = "ftm.view"(%8) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8xf32>
      %56 = "ftm.view"(%7) {offset = 12 : i64, strides = array<i64: 2400, 200, 25>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8xf32>
      %57 = tensor.empty() : tensor<1x1xi8>
      %58 = arith.constant 0.0 : f32
      %59 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %60 = linalg.fill ins(%58 : f32) outs(%59 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %61 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%55, %56, %57 : tensor<4x2x8x8x8xf32>, tensor<2x12x8xf32>, tensor<1x1xi8>) outs(%60 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %62 = arith.mulf %in0, %in1 : f32
        %63 = arith.addf %out0, %62 : f32
        linalg.yield %63 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%61) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %74 = "ftm.kernel"() ({
      %65 = "ftm.view"(%8) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
      %66 = "ftm.view"(%7) {offset = 13 : i64, strides = array<i64: 2400, 200, 25, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
      %67 = tensor.empty() : tensor<1xi8>
      %68 = arith.constant 0.0 : f32
      %69 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %70 = linalg.fill ins(%68 : f32) outs(%69 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %71 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%65, %66, %67 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%70 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %72 = arith.mulf %in0, %in1 : f32
        %73 = arith.addf %out0, %72 : f32
        linalg.yield %73 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%71) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %75 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %76 = "ftm.update"(%75, %54) {offset = 0 : i64, strides = array<i64: 1536, 768, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %77 = "ftm.update"(%76, %64) {offset = 6144 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %78 = "ftm.update"(%77, %74) {offset = 12288 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %82 = "ftm.kernel"() ({
      %79 = "ftm.view"(%78) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
      %80 = tensor.empty() : tensor<4x24x8x8x3xf32>
      %81 = linalg.copy ins(%79 : tensor<4x24x8x8x3xf32>) outs(%80 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
      "ftm.yield"(%81) : (tensor<4x24x8x8x3xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<4x24x8x8x3xf32>)
    %91 = "ftm.kernel"() ({
      %83 = "ftm.view"(%8) {offset = 10 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
      %84 = "ftm.view"(%7) {offset = 19 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
      %85 = arith.constant 0.0 : f32
      %86 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %87 = linalg.fill ins(%85 : f32) outs(%86 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %88 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%83, %84 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%87 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %89 = arith.mulf %in0, %in1 : f32
        %90 = arith.addf %out0, %89 : f32
        linalg.yield %90 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%88) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %101 = "ftm.kernel"() ({
      %92 = "ftm.view"(%8) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2xf32>
      %93 = "ftm.view"(%7) {offset = 17 : i64, strides = array<i64: 2400, 200, 25, -15>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2xf32>
      %94 = tensor.empty() : tensor<1xi8>
      %95 = arith.constant 0.0 : f32
      %96 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %97 = linalg.fill ins(%95 : f32) outs(%96 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %98 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%92, %93, %94 : tensor<4x2x8x8x8x2xf32>, tensor<2x12x8x2xf32>, tensor<1xi8>) outs(%97 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %99 = arith.mulf %in0, %in1 : f32
        %100 = arith.addf %out0, %99 : f32
        linalg.yield %100 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%98) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %110 = "ftm.kernel"() ({
      %102 = "ftm.view"(%8) {offset = 11 : i64, strides = array<i64: 1600, 800, 10, 1, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x2x8x8x8x2x2xf32>
      %103 = "ftm.view"(%7) {offset = 18 : i64, strides = array<i64: 2400, 200, 25, -15, -3>} : (tensor<2x12x8x5x5xf32>) -> tensor<2x12x8x2x2xf32>
      %104 = arith.constant 0.0 : f32
      %105 = tensor.empty() : tensor<4x2x12x8x8xf32>
      %106 = linalg.fill ins(%104 : f32) outs(%105 : tensor<4x2x12x8x8xf32>) -> tensor<4x2x12x8x8xf32>
      %107 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%102, %103 : tensor<4x2x8x8x8x2x2xf32>, tensor<2x12x8x2x2xf32>) outs(%106 : tensor<4x2x12x8x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %108 = arith.mulf %in0, %in1 : f32
        %109 = arith.addf %out0, %108 : f32
        linalg.yield %109 : f32
      } -> tensor<4x2x12x8x8xf32>
      "ftm.yield"(%107) : (tensor<4x2x12x8x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x2x12x8x8xf32>)
    %111 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %112 = "ftm.update"(%111, %91) {offset = 0 : i64, strides = array<i64: 1536, 768, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %113 = "ftm.update"(%112, %101) {offset = 6144 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %114 = "ftm.update"(%113, %110) {offset = 12288 : i64, strides = array<i64: 1536, 768, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x2x12x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %118 = "ftm.kernel"() ({
      %115 = "ftm.view"(%114) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
      %116 = tensor.empty() : tensor<4x24x8x8x3xf32>
      %117 = linalg.copy ins(%115 : tensor<4x24x8x8x3xf32>) outs(%116 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
      "ftm.yield"(%117) : (tensor<4x24x8x8x3xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<4x24x8x8x3xf32>)
    %119 = tensor.empty() : tensor<4x24x24x24xf32>
    %120 = "ftm.update"(%119, %44) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %121 = "ftm.update"(%120, %82) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %122 = "ftm.update"(%121, %118) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %122 : tensor<4x24x24x24xf32>
  }
}
