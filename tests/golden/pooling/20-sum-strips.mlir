module attributes {ftm.stage = "sum-strips"} {
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
      %11 = arith.constant 2147483647 : i32
      %12 = tensor.empty() : tensor<33x33xi32>
      %13 = linalg.fill ins(%11 : i32) outs(%12 : tensor<33x33xi32>) -> tensor<33x33xi32>
      %14 = tensor.empty() : tensor<33x33xi32>
      %15 = linalg.copy ins(%13 : tensor<33x33xi32>) outs(%14 : tensor<33x33xi32>) -> tensor<33x33xi32>
      "ftm.yield"(%15) : (tensor<33x33xi32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<33x33xi32>)
    %27 = "ftm.kernel"() ({
      %17 = tensor.empty() : tensor<32x31xi32>
      %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%17 : tensor<32x31xi32>) {
      ^bb0(%out0: i32):
        %19 = linalg.index 0 : index
        %20 = arith.index_cast %19 : index to i64
        %21 = arith.constant 31 : i64
        %22 = arith.muli %20, %21 : i64
        %23 = linalg.index 1 : index
        %24 = arith.index_cast %23 : index to i64
        %25 = arith.addi %22, %24 : i64
        %26 = arith.trunci %25 : i64 to i32
        linalg.yield %26 : i32
      } -> tensor<32x31xi32>
      "ftm.yield"(%18) : (tensor<32x31xi32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x31xi32>)
    %28 = "ftm.update"(%16, %27) {offset = 34 : i64, strides = array<i64: 33, 1>} : (tensor<33x33xi32>, tensor<32x31xi32>) -> tensor<33x33xi32>
    %39 = "ftm.kernel"() ({
      %29 = tensor.empty() : tensor<32x32xi32>
      %30 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%29 : tensor<32x32xi32>) {
      ^bb0(%out0: i32):
        %31 = linalg.index 0 : index
        %32 = arith.index_cast %31 : index to i64
        %33 = arith.constant 31 : i64
        %34 = arith.muli %32, %33 : i64
        %35 = linalg.index 1 : index
        %36 = arith.index_cast %35 : index to i64
        %37 = arith.addi %34, %36 : i64
        %38 = arith.trunci %37 : i64 to i32
        linalg.yield %38 : i32
      } -> tensor<32x32xi32>
      "ftm.yield"(%30) : (tensor<32x32xi32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x32xi32>)
    %45 = "ftm.kernel"() ({
      %40 = arith.constant 0.0 : f32
      %41 = tensor.empty() : tensor<32x17x17xf32>
      %42 = linalg.fill ins(%40 : f32) outs(%41 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
      %43 = tensor.empty() : tensor<32x17x17xf32>
      %44 = linalg.copy ins(%42 : tensor<32x17x17xf32>) outs(%43 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
      "ftm.yield"(%44) : (tensor<32x17x17xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x17x17xf32>)
    %49 = "ftm.kernel"() ({
      %46 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
      %47 = tensor.empty() : tensor<32x16x16xf32>
      %48 = linalg.copy ins(%46 : tensor<32x16x16xf32>) outs(%47 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
      "ftm.yield"(%48) : (tensor<32x16x16xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x16x16xf32>)
    %50 = "ftm.update"(%45, %49) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xf32>, tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %56 = "ftm.kernel"() ({
      %51 = arith.constant -1 : i32
      %52 = tensor.empty() : tensor<32x17x17xi32>
      %53 = linalg.fill ins(%51 : i32) outs(%52 : tensor<32x17x17xi32>) -> tensor<32x17x17xi32>
      %54 = tensor.empty() : tensor<32x17x17xi32>
      %55 = linalg.copy ins(%53 : tensor<32x17x17xi32>) outs(%54 : tensor<32x17x17xi32>) -> tensor<32x17x17xi32>
      "ftm.yield"(%55) : (tensor<32x17x17xi32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x17x17xi32>)
    %88:3 = "ftm.kernel"() ({
      %57 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
      %58 = arith.constant 0xFF800000 : f32
      %59 = tensor.empty() : tensor<32x16x16xf32>
      %60 = linalg.fill ins(%58 : f32) outs(%59 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
      %61 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%57 : tensor<32x16x16x3x3xf32>) outs(%60 : tensor<32x16x16xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %62 = arith.maximumf %out0, %in0 : f32
        linalg.yield %62 : f32
      } -> tensor<32x16x16xf32>
      %63 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
      %64 = "ftm.view"(%28) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi32>) -> tensor<16x16x3x3xi32>
      %65 = arith.constant 2147483647 : i32
      %66 = tensor.empty() : tensor<32x16x16xi32>
      %67 = linalg.fill ins(%65 : i32) outs(%66 : tensor<32x16x16xi32>) -> tensor<32x16x16xi32>
      %69 = arith.constant -1 : i32
      %70 = arith.constant 1 : i32
      %68 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%63, %64, %61 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi32>, tensor<32x16x16xf32>) outs(%67 : tensor<32x16x16xi32>) {
      ^bb0(%in0: f32, %in1: i32, %in2: f32, %out0: i32):
        %71 = arith.cmpf une, %in0, %in0 : f32
        %72 = arith.muli %in1, %69 : i32
        %73 = arith.subi %72, %70 : i32
        %74 = arith.cmpf oeq, %in0, %in2 : f32
        %75 = arith.select %74, %in1, %65 : i32
        %76 = arith.select %71, %73, %75 : i32
        %77 = arith.minsi %out0, %76 : i32
        linalg.yield %77 : i32
      } -> tensor<32x16x16xi32>
      %78 = tensor.empty() : tensor<32x16x16xi32>
      %80 = arith.constant 0 : i32
      %79 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%68 : tensor<32x16x16xi32>) outs(%78 : tensor<32x16x16xi32>) {
      ^bb0(%in0: i32, %out0: i32):
        %81 = arith.cmpi slt, %in0, %80 : i32
        %82 = arith.muli %in0, %69 : i32
        %83 = arith.subi %82, %70 : i32
        %84 = arith.select %81, %83, %in0 : i32
        linalg.yield %84 : i32
      } -> tensor<32x16x16xi32>
      %85 = tensor.empty() : tensor<32x16x16xi64>
      %86 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%79 : tensor<32x16x16xi32>) outs(%85 : tensor<32x16x16xi64>) {
      ^bb0(%in0: i32, %out0: i64):
        %87 = arith.extsi %in0 : i32 to i64
        linalg.yield %87 : i64
      } -> tensor<32x16x16xi64>
      "ftm.yield"(%61, %79, %86) : (tensor<32x16x16xf32>, tensor<32x16x16xi32>, tensor<32x16x16xi64>) -> ()
    }) {kind = "strips"} : () -> (tensor<32x16x16xf32>, tensor<32x16x16xi32>, tensor<32x16x16xi64>)
    %89 = "ftm.update"(%56, %88#1) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xi32>, tensor<32x16x16xi32>) -> tensor<32x17x17xi32>
    %100 = "ftm.kernel"() ({
      %90 = "ftm.view"(%50) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
      %91 = "ftm.view"(%89) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi32>) -> tensor<32x16x16x2x2xi32>
      %92 = "ftm.view"(%39) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi32>) -> tensor<16x2x16x2xi32>
      %93 = arith.constant 0.0 : f32
      %94 = tensor.empty() : tensor<32x16x2x16x2xf32>
      %95 = linalg.fill ins(%93 : f32) outs(%94 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
      %96 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%90, %91, %92 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi32>, tensor<16x2x16x2xi32>) outs(%95 : tensor<32x16x2x16x2xf32>) {
      ^bb0(%in0: f32, %in1: i32, %in2: i32, %out0: f32):
        %97 = arith.cmpi eq, %in1, %in2 : i32
        %98 = arith.select %97, %in0, %93 : f32
        %99 = arith.addf %out0, %98 : f32
        linalg.yield %99 : f32
      } -> tensor<32x16x2x16x2xf32>
      "ftm.yield"(%96) : (tensor<32x16x2x16x2xf32>) -> ()
    }) {kind = "strips"} : () -> (tensor<32x16x2x16x2xf32>)
    %104 = "ftm.kernel"() ({
      %101 = "ftm.view"(%100) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
      %102 = tensor.empty() : tensor<2x16x32x31xf32>
      %103 = linalg.copy ins(%101 : tensor<2x16x32x31xf32>) outs(%102 : tensor<2x16x32x31xf32>) -> tensor<2x16x32x31xf32>
      "ftm.yield"(%103) : (tensor<2x16x32x31xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x16x32x31xf32>)
    %105 = "ftm.view"(%88#0) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %106 = "ftm.view"(%88#2) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    return %105, %106, %104 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
