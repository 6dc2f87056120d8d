module attributes {ftm.stage = "write-borders"} {
  func.func @main(%arg0: tensor<2x16x32x31xf32>, %arg1: tensor<2x16x16x16xf32>) -> (tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>) attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32", "i64", "f32"]} {
    %0 = arith.constant 0xFF800000 : f32
    %1 = tensor.empty() : tensor<32x33x33xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<32x33x33xf32>) -> tensor<32x33x33xf32>
    %3 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 992, 31, 1>} : (tensor<2x16x32x31xf32>) -> tensor<32x32x31xf32>
    %4 = "ftm.update"(%2, %3) {offset = 34 : i64, strides = array<i64: 1089, 33, 1>} : (tensor<32x33x33xf32>, tensor<32x32x31xf32>) -> tensor<32x33x33xf32>
    %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
    %6 = tensor.empty() : tensor<32x16x16xf32>
    %7 = linalg.fill ins(%0 : f32) outs(%6 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
    %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%5 : tensor<32x16x16x3x3xf32>) outs(%7 : tensor<32x16x16xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %9 = arith.maximumf %out0, %in0 : f32
      linalg.yield %9 : f32
    } -> tensor<32x16x16xf32>
    %10 = tensor.empty() : tensor<32x31xi64>
    %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%10 : tensor<32x31xi64>) {
    ^bb0(%out0: i64):
      %12 = linalg.index 0 : index
      %13 = arith.index_cast %12 : index to i64
      %14 = arith.constant 31 : i64
      %15 = arith.muli %13, %14 : i64
      %16 = linalg.index 1 : index
      %17 = arith.index_cast %16 : index to i64
      %18 = arith.addi %15, %17 : i64
      linalg.yield %18 : i64
    } -> tensor<32x31xi64>
    %19 = arith.constant 9223372036854775807 : i64
    %20 = tensor.empty() : tensor<33x33xi64>
    %21 = linalg.fill ins(%19 : i64) outs(%20 : tensor<33x33xi64>) -> tensor<33x33xi64>
    %22 = "ftm.update"(%21, %11) {offset = 34 : i64, strides = array<i64: 33, 1>} : (tensor<33x33xi64>, tensor<32x31xi64>) -> tensor<33x33xi64>
    %23 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
    %24 = "ftm.view"(%22) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi64>) -> tensor<16x16x3x3xi64>
    %25 = tensor.empty() : tensor<32x16x16xi64>
    %26 = linalg.fill ins(%19 : i64) outs(%25 : tensor<32x16x16xi64>) -> tensor<32x16x16xi64>
    %28 = arith.constant -1 : i64
    %29 = arith.constant 1 : i64
    %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%23, %24, %8 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi64>, tensor<32x16x16xf32>) outs(%26 : tensor<32x16x16xi64>) {
    ^bb0(%in0: f32, %in1: i64, %in2: f32, %out0: i64):
      %30 = arith.cmpf une, %in0, %in0 : f32
      %31 = arith.muli %in1, %28 : i64
      %32 = arith.subi %31, %29 : i64
      %33 = arith.cmpf oeq, %in0, %in2 : f32
      %34 = arith.select %33, %in1, %19 : i64
      %35 = arith.select %30, %32, %34 : i64
      %36 = arith.minsi %out0, %35 : i64
      linalg.yield %36 : i64
    } -> tensor<32x16x16xi64>
    %37 = tensor.empty() : tensor<32x16x16xi64>
    %39 = arith.constant 0 : i64
    %38 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%27 : tensor<32x16x16xi64>) outs(%37 : tensor<32x16x16xi64>) {
    ^bb0(%in0: i64, %out0: i64):
      %40 = arith.cmpi slt, %in0, %39 : i64
      %41 = arith.muli %in0, %28 : i64
      %42 = arith.subi %41, %29 : i64
      %43 = arith.select %40, %42, %in0 : i64
      linalg.yield %43 : i64
    } -> tensor<32x16x16xi64>
    %44 = tensor.empty() : tensor<32x32xi64>
    %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%44 : tensor<32x32xi64>) {
    ^bb0(%out0: i64):
      %46 = linalg.index 0 : index
      %47 = arith.index_cast %46 : index to i64
      %48 = arith.constant 31 : i64
      %49 = arith.muli %47, %48 : i64
      %50 = linalg.index 1 : index
      %51 = arith.index_cast %50 : index to i64
      %52 = arith.addi %49, %51 : i64
      linalg.yield %52 : i64
    } -> tensor<32x32xi64>
    %53 = arith.constant 0.0 : f32
    %54 = tensor.empty() : tensor<32x17x17xf32>
    %55 = linalg.fill ins(%53 : f32) outs(%54 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
    %56 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
    %57 = "ftm.update"(%55, %56) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xf32>, tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %58 = tensor.empty() : tensor<32x17x17xi64>
    %59 = linalg.fill ins(%28 : i64) outs(%58 : tensor<32x17x17xi64>) -> tensor<32x17x17xi64>
    %60 = "ftm.update"(%59, %38) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xi64>, tensor<32x16x16xi64>) -> tensor<32x17x17xi64>
    %61 = "ftm.view"(%57) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
    %62 = "ftm.view"(%60) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi64>) -> tensor<32x16x16x2x2xi64>
    %63 = "ftm.view"(%45) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi64>) -> tensor<16x2x16x2xi64>
    %64 = tensor.empty() : tensor<32x16x2x16x2xf32>
    %65 = linalg.fill ins(%53 : f32) outs(%64 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
    %66 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%61, %62, %63 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi64>, tensor<16x2x16x2xi64>) outs(%65 : tensor<32x16x2x16x2xf32>) {
    ^bb0(%in0: f32, %in1: i64, %in2: i64, %out0: f32):
      %67 = arith.cmpi eq, %in1, %in2 : i64
      %68 = arith.select %67, %in0, %53 : f32
      %69 = arith.addf %out0, %68 : f32
      linalg.yield %69 : f32
    } -> tensor<32x16x2x16x2xf32>
    %70 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %71 = "ftm.view"(%38) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    %72 = "ftm.view"(%66) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
    return %70, %71, %72 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
