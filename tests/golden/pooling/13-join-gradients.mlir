module attributes {ftm.stage = "join-gradients"} {
  func.func @main(%arg0: tensor<2x16x32x31xf32>, %arg1: tensor<2x16x16x16xf32>) -> (tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>) attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32", "i64", "f32"]} {
    %5 = "ftm.kernel"() ({
      %0 = arith.constant 0xFF800000 : f32
      %1 = tensor.empty() : tensor<32x33x33xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<32x33x33xf32>) -> tensor<32x33x33xf32>
      %3 = tensor.empty() : tensor<32x33x33xf32>
      %4 = linalg.copy ins(%2 : tensor<32x33x33xf32>) outs(%3 : tensor<32x33x33xf32>) -> tensor<32x33x33xf32>
      "ftm.yield"(%4) : (tensor<32x33x33xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<32x33x33xf32>)
    %9 = "ftm.kernel"() ({
      %6 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 992, 31, 1>} : (tensor<2x16x32x31xf32>) -> tensor<32x32x31xf32>
      %7 = tensor.empty() : tensor<32x32x31xf32>
      %8 = linalg.copy ins(%6 : tensor<32x32x31xf32>) outs(%7 : tensor<32x32x31xf32>) -> tensor<32x32x31xf32>
      "ftm.yield"(%8) : (tensor<32x32x31xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<32x32x31xf32>)
    %10 = "ftm.update"(%5, %9) {offset = 34 : i64, strides = array<i64: 1089, 33, 1>} : (tensor<32x33x33xf32>, tensor<32x32x31xf32>) -> tensor<32x33x33xf32>
    %16 = "ftm.kernel"() ({
      %11 = arith.constant 9223372036854775807 : i64
      %12 = tensor.empty() : tensor<33x33xi64>
      %13 = linalg.fill ins(%11 : i64) outs(%12 : tensor<33x33xi64>) -> tensor<33x33xi64>
      %14 = tensor.empty() : tensor<33x33xi64>
      %15 = linalg.copy ins(%13 : tensor<33x33xi64>) outs(%14 : tensor<33x33xi64>) -> tensor<33x33xi64>
      "ftm.yield"(%15) : (tensor<33x33xi64>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<33x33xi64>)
    %26 = "ftm.kernel"() ({
      %17 = tensor.empty() : tensor<32x31xi64>
      %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%17 : tensor<32x31xi64>) {
      ^bb0(%out0: i64):
        %19 = linalg.index 0 : index
        %20 = arith.index_cast %19 : index to i64
        %21 = arith.constant 31 : i64
        %22 = arith.muli %20, %21 : i64
        %23 = linalg.index 1 : index
        %24 = arith.index_cast %23 : index to i64
        %25 = arith.addi %22, %24 : i64
        linalg.yield %25 : i64
      } -> tensor<32x31xi64>
      "ftm.yield"(%18) : (tensor<32x31xi64>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x31xi64>)
    %27 = "ftm.update"(%16, %26) {offset = 34 : i64, strides = array<i64: 33, 1>} : (tensor<33x33xi64>, tensor<32x31xi64>) -> tensor<33x33xi64>
    %37 = "ftm.kernel"() ({
      %28 = tensor.empty() : tensor<32x32xi64>
      %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%28 : tensor<32x32xi64>) {
      ^bb0(%out0: i64):
        %30 = linalg.index 0 : index
        %31 = arith.index_cast %30 : index to i64
        %32 = arith.constant 31 : i64
        %33 = arith.muli %31, %32 : i64
        %34 = linalg.index 1 : index
        %35 = arith.index_cast %34 : index to i64
        %36 = arith.addi %33, %35 : i64
        linalg.yield %36 : i64
      } -> tensor<32x32xi64>
      "ftm.yield"(%29) : (tensor<32x32xi64>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x32xi64>)
    %43 = "ftm.kernel"() ({
      %38 = arith.constant 0.0 : f32
      %39 = tensor.empty() : tensor<32x17x17xf32>
      %40 = linalg.fill ins(%38 : f32) outs(%39 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
      %41 = tensor.empty() : tensor<32x17x17xf32>
      %42 = linalg.copy ins(%40 : tensor<32x17x17xf32>) outs(%41 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
      "ftm.yield"(%42) : (tensor<32x17x17xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x17x17xf32>)
    %47 = "ftm.kernel"() ({
      %44 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
      %45 = tensor.empty() : tensor<32x16x16xf32>
      %46 = linalg.copy ins(%44 : tensor<32x16x16xf32>) outs(%45 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
      "ftm.yield"(%46) : (tensor<32x16x16xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x16x16xf32>)
    %48 = "ftm.update"(%43, %47) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xf32>, tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %54 = "ftm.kernel"() ({
      %49 = arith.constant -1 : i64
      %50 = tensor.empty() : tensor<32x17x17xi64>
      %51 = linalg.fill ins(%49 : i64) outs(%50 : tensor<32x17x17xi64>) -> tensor<32x17x17xi64>
      %52 = tensor.empty() : tensor<32x17x17xi64>
      %53 = linalg.copy ins(%51 : tensor<32x17x17xi64>) outs(%52 : tensor<32x17x17xi64>) -> tensor<32x17x17xi64>
      "ftm.yield"(%53) : (tensor<32x17x17xi64>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x17x17xi64>)
    %83:2 = "ftm.kernel"() ({
      %55 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
      %56 = arith.constant 0xFF800000 : f32
      %57 = tensor.empty() : tensor<32x16x16xf32>
      %58 = linalg.fill ins(%56 : f32) outs(%57 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
      %59 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%55 : tensor<32x16x16x3x3xf32>) outs(%58 : tensor<32x16x16xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %60 = arith.maximumf %out0, %in0 : f32
        linalg.yield %60 : f32
      } -> tensor<32x16x16xf32>
      %61 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
      %62 = "ftm.view"(%27) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi64>) -> tensor<16x16x3x3xi64>
      %63 = arith.constant 9223372036854775807 : i64
      %64 = tensor.empty() : tensor<32x16x16xi64>
      %65 = linalg.fill ins(%63 : i64) outs(%64 : tensor<32x16x16xi64>) -> tensor<32x16x16xi64>
      %67 = arith.constant -1 : i64
      %68 = arith.constant 1 : i64
      %66 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%61, %62, %59 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi64>, tensor<32x16x16xf32>) outs(%65 : tensor<32x16x16xi64>) {
      ^bb0(%in0: f32, %in1: i64, %in2: f32, %out0: i64):
        %69 = arith.cmpf une, %in0, %in0 : f32
        %70 = arith.muli %in1, %67 : i64
        %71 = arith.subi %70, %68 : i64
        %72 = arith.cmpf oeq, %in0, %in2 : f32
        %73 = arith.select %72, %in1, %63 : i64
        %74 = arith.select %69, %71, %73 : i64
        %75 = arith.minsi %out0, %74 : i64
        linalg.yield %75 : i64
      } -> tensor<32x16x16xi64>
      %76 = tensor.empty() : tensor<32x16x16xi64>
      %78 = arith.constant 0 : i64
      %77 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%66 : tensor<32x16x16xi64>) outs(%76 : tensor<32x16x16xi64>) {
      ^bb0(%in0: i64, %out0: i64):
        %79 = arith.cmpi slt, %in0, %78 : i64
        %80 = arith.muli %in0, %67 : i64
        %81 = arith.subi %80, %68 : i64
        %82 = arith.select %79, %81, %in0 : i64
        linalg.yield %82 : i64
      } -> tensor<32x16x16xi64>
      "ftm.yield"(%59, %77) : (tensor<32x16x16xf32>, tensor<32x16x16xi64>) -> ()
    }) {kind = "nest"} : () -> (tensor<32x16x16xf32>, tensor<32x16x16xi64>)
    %84 = "ftm.update"(%54, %83#1) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xi64>, tensor<32x16x16xi64>) -> tensor<32x17x17xi64>
    %95 = "ftm.kernel"() ({
      %85 = "ftm.view"(%48) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
      %86 = "ftm.view"(%84) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi64>) -> tensor<32x16x16x2x2xi64>
      %87 = "ftm.view"(%37) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi64>) -> tensor<16x2x16x2xi64>
      %88 = arith.constant 0.0 : f32
      %89 = tensor.empty() : tensor<32x16x2x16x2xf32>
      %90 = linalg.fill ins(%88 : f32) outs(%89 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
      %91 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%85, %86, %87 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi64>, tensor<16x2x16x2xi64>) outs(%90 : tensor<32x16x2x16x2xf32>) {
      ^bb0(%in0: f32, %in1: i64, %in2: i64, %out0: f32):
        %92 = arith.cmpi eq, %in1, %in2 : i64
        %93 = arith.select %92, %in0, %88 : f32
        %94 = arith.addf %out0, %93 : f32
        linalg.yield %94 : f32
      } -> tensor<32x16x2x16x2xf32>
      "ftm.yield"(%91) : (tensor<32x16x2x16x2xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<32x16x2x16x2xf32>)
    %99 = "ftm.kernel"() ({
      %96 = "ftm.view"(%95) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
      %97 = tensor.empty() : tensor<2x16x32x31xf32>
      %98 = linalg.copy ins(%96 : tensor<2x16x32x31xf32>) outs(%97 : tensor<2x16x32x31xf32>) -> tensor<2x16x32x31xf32>
      "ftm.yield"(%98) : (tensor<2x16x32x31xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x16x32x31xf32>)
    %100 = "ftm.view"(%83#0) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %101 = "ftm.view"(%83#1) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    return %100, %101, %99 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
