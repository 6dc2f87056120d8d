module attributes {ftm.stage = "schedule-kernels"} {
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
    %60:3 = "ftm.kernel"() ({
      %29 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
      %30 = arith.constant 0xFF800000 : f32
      %31 = tensor.empty() : tensor<32x16x16xf32>
      %32 = linalg.fill ins(%30 : f32) outs(%31 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
      %33 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%29 : tensor<32x16x16x3x3xf32>) outs(%32 : tensor<32x16x16xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %34 = arith.maximumf %out0, %in0 : f32
        linalg.yield %34 : f32
      } -> tensor<32x16x16xf32>
      %35 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
      %36 = "ftm.view"(%28) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi32>) -> tensor<16x16x3x3xi32>
      %37 = arith.constant 2147483647 : i32
      %38 = tensor.empty() : tensor<32x16x16xi32>
      %39 = linalg.fill ins(%37 : i32) outs(%38 : tensor<32x16x16xi32>) -> tensor<32x16x16xi32>
      %41 = arith.constant -1 : i32
      %42 = arith.constant 1 : i32
      %40 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%35, %36, %33 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi32>, tensor<32x16x16xf32>) outs(%39 : tensor<32x16x16xi32>) {
      ^bb0(%in0: f32, %in1: i32, %in2: f32, %out0: i32):
        %43 = arith.cmpf une, %in0, %in0 : f32
        %44 = arith.muli %in1, %41 : i32
        %45 = arith.subi %44, %42 : i32
        %46 = arith.cmpf oeq, %in0, %in2 : f32
        %47 = arith.select %46, %in1, %37 : i32
        %48 = arith.select %43, %45, %47 : i32
        %49 = arith.minsi %out0, %48 : i32
        linalg.yield %49 : i32
      } -> tensor<32x16x16xi32>
      %50 = tensor.empty() : tensor<32x16x16xi32>
      %52 = arith.constant 0 : i32
      %51 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%40 : tensor<32x16x16xi32>) outs(%50 : tensor<32x16x16xi32>) {
      ^bb0(%in0: i32, %out0: i32):
        %53 = arith.cmpi slt, %in0, %52 : i32
        %54 = arith.muli %in0, %41 : i32
        %55 = arith.subi %54, %42 : i32
        %56 = arith.select %53, %55, %in0 : i32
        linalg.yield %56 : i32
      } -> tensor<32x16x16xi32>
      %57 = tensor.empty() : tensor<32x16x16xi64>
      %58 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%51 : tensor<32x16x16xi32>) outs(%57 : tensor<32x16x16xi64>) {
      ^bb0(%in0: i32, %out0: i64):
        %59 = arith.extsi %in0 : i32 to i64
        linalg.yield %59 : i64
      } -> tensor<32x16x16xi64>
      "ftm.yield"(%33, %51, %58) : (tensor<32x16x16xf32>, tensor<32x16x16xi32>, tensor<32x16x16xi64>) -> ()
    }) {kind = "strips"} : () -> (tensor<32x16x16xf32>, tensor<32x16x16xi32>, tensor<32x16x16xi64>)
    %71 = "ftm.kernel"() ({
      %61 = tensor.empty() : tensor<32x32xi32>
      %62 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%61 : tensor<32x32xi32>) {
      ^bb0(%out0: i32):
        %63 = linalg.index 0 : index
        %64 = arith.index_cast %63 : index to i64
        %65 = arith.constant 31 : i64
        %66 = arith.muli %64, %65 : i64
        %67 = linalg.index 1 : index
        %68 = arith.index_cast %67 : index to i64
        %69 = arith.addi %66, %68 : i64
        %70 = arith.trunci %69 : i64 to i32
        linalg.yield %70 : i32
      } -> tensor<32x32xi32>
      "ftm.yield"(%62) : (tensor<32x32xi32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x32xi32>)
    %72 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
    %73 = "ftm.border"(%72) {low = array<i64: 0, 0, 0>} : (tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %74 = "ftm.border"(%60#1) {low = array<i64: 0, 0, 0>} : (tensor<32x16x16xi32>) -> tensor<32x17x17xi32>
    %85 = "ftm.kernel"() ({
      %75 = "ftm.view"(%73) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
      %76 = "ftm.view"(%74) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi32>) -> tensor<32x16x16x2x2xi32>
      %77 = "ftm.view"(%71) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi32>) -> tensor<16x2x16x2xi32>
      %78 = arith.constant 0.0 : f32
      %79 = tensor.empty() : tensor<32x16x2x16x2xf32>
      %80 = linalg.fill ins(%78 : f32) outs(%79 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
      %81 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%75, %76, %77 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi32>, tensor<16x2x16x2xi32>) outs(%80 : tensor<32x16x2x16x2xf32>) {
      ^bb0(%in0: f32, %in1: i32, %in2: i32, %out0: f32):
        %82 = arith.cmpi eq, %in1, %in2 : i32
        %83 = arith.select %82, %in0, %78 : f32
        %84 = arith.addf %out0, %83 : f32
        linalg.yield %84 : f32
      } -> tensor<32x16x2x16x2xf32>
      "ftm.yield"(%81) : (tensor<32x16x2x16x2xf32>) -> ()
    }) {kind = "strips"} : () -> (tensor<32x16x2x16x2xf32>)
    %89 = "ftm.kernel"() ({
      %86 = "ftm.view"(%85) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
      %87 = tensor.empty() : tensor<2x16x32x31xf32>
      %88 = linalg.copy ins(%86 : tensor<2x16x32x31xf32>) outs(%87 : tensor<2x16x32x31xf32>) -> tensor<2x16x32x31xf32>
      "ftm.yield"(%88) : (tensor<2x16x32x31xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x16x32x31xf32>)
    %90 = "ftm.view"(%60#0) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %91 = "ftm.view"(%60#2) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    return %90, %91, %89 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
