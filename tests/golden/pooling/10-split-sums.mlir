module attributes {ftm.stage = "split-sums"} {
  func.func @main(%arg0: tensor<2x16x32x31xf32>, %arg1: tensor<2x16x16x16xf32>) -> (tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>) attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32", "i64", "f32"]} {
    %0 = arith.constant 0xFF800000 : f32
    %1 = tensor.empty() : tensor<32x33x33xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<32x33x33xf32>) -> tensor<32x33x33xf32>
    %3 = tensor.empty() : tensor<32x33x33xf32>
    %4 = linalg.copy ins(%2 : tensor<32x33x33xf32>) outs(%3 : tensor<32x33x33xf32>) -> tensor<32x33x33xf32>
    %5 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 992, 31, 1>} : (tensor<2x16x32x31xf32>) -> tensor<32x32x31xf32>
    %6 = tensor.empty() : tensor<32x32x31xf32>
    %7 = linalg.copy ins(%5 : tensor<32x32x31xf32>) outs(%6 : tensor<32x32x31xf32>) -> tensor<32x32x31xf32>
    %8 = "ftm.update"(%4, %7) {offset = 34 : i64, strides = array<i64: 1089, 33, 1>} : (tensor<32x33x33xf32>, tensor<32x32x31xf32>) -> tensor<32x33x33xf32>
    %9 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
    %10 = tensor.empty() : tensor<32x16x16xf32>
    %11 = linalg.fill ins(%0 : f32) outs(%10 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%9 : tensor<32x16x16x3x3xf32>) outs(%11 : tensor<32x16x16xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %13 = arith.maximumf %out0, %in0 : f32
      linalg.yield %13 : f32
    } -> tensor<32x16x16xf32>
    %14 = tensor.empty() : tensor<32x31xi64>
    %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%14 : tensor<32x31xi64>) {
    ^bb0(%out0: i64):
      %16 = linalg.index 0 : index
      %17 = arith.index_cast %16 : index to i64
      %18 = arith.constant 31 : i64
      %19 = arith.muli %17, %18 : i64
      %20 = linalg.index 1 : index
      %21 = arith.index_cast %20 : index to i64
      %22 = arith.addi %19, %21 : i64
      linalg.yield %22 : i64
    } -> tensor<32x31xi64>
    %23 = arith.constant 9223372036854775807 : i64
    %24 = tensor.empty() : tensor<33x33xi64>
    %25 = linalg.fill ins(%23 : i64) outs(%24 : tensor<33x33xi64>) -> tensor<33x33xi64>
    %26 = tensor.empty() : tensor<33x33xi64>
    %27 = linalg.copy ins(%25 : tensor<33x33xi64>) outs(%26 : tensor<33x33xi64>) -> tensor<33x33xi64>
    %28 = "ftm.update"(%27, %15) {offset = 34 : i64, strides = array<i64: 33, 1>} : (tensor<33x33xi64>, tensor<32x31xi64>) -> tensor<33x33xi64>
    %29 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
    %30 = "ftm.view"(%28) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi64>) -> tensor<16x16x3x3xi64>
    %31 = tensor.empty() : tensor<32x16x16xi64>
    %32 = linalg.fill ins(%23 : i64) outs(%31 : tensor<32x16x16xi64>) -> tensor<32x16x16xi64>
    %34 = arith.constant -1 : i64
    %35 = arith.constant 1 : i64
    %33 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%29, %30, %12 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi64>, tensor<32x16x16xf32>) outs(%32 : tensor<32x16x16xi64>) {
    ^bb0(%in0: f32, %in1: i64, %in2: f32, %out0: i64):
      %36 = arith.cmpf une, %in0, %in0 : f32
      %37 = arith.muli %in1, %34 : i64
      %38 = arith.subi %37, %35 : i64
      %39 = arith.cmpf oeq, %in0, %in2 : f32
      %40 = arith.select %39, %in1, %23 : i64
      %41 = arith.select %36, %38, %40 : i64
      %42 = arith.minsi %out0, %41 : i64
      linalg.yield %42 : i64
    } -> tensor<32x16x16xi64>
    %43 = tensor.empty() : tensor<32x16x16xi64>
    %45 = arith.constant 0 : i64
    %44 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%33 : tensor<32x16x16xi64>) outs(%43 : tensor<32x16x16xi64>) {
    ^bb0(%in0: i64, %out0: i64):
      %46 = arith.cmpi slt, %in0, %45 : i64
      %47 = arith.muli %in0, %34 : i64
      %48 = arith.subi %47, %35 : i64
      %49 = arith.select %46, %48, %in0 : i64
      linalg.yield %49 : i64
    } -> tensor<32x16x16xi64>
    %50 = tensor.empty() : tensor<32x32xi64>
    %51 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%50 : tensor<32x32xi64>) {
    ^bb0(%out0: i64):
      %52 = linalg.index 0 : index
      %53 = arith.index_cast %52 : index to i64
      %54 = arith.constant 31 : i64
      %55 = arith.muli %53, %54 : i64
      %56 = linalg.index 1 : index
      %57 = arith.index_cast %56 : index to i64
      %58 = arith.addi %55, %57 : i64
      linalg.yield %58 : i64
    } -> tensor<32x32xi64>
    %59 = arith.constant 0.0 : f32
    %60 = tensor.empty() : tensor<32x17x17xf32>
    %61 = linalg.fill ins(%59 : f32) outs(%60 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
    %62 = tensor.empty() : tensor<32x17x17xf32>
    %63 = linalg.copy ins(%61 : tensor<32x17x17xf32>) outs(%62 : tensor<32x17x17xf32>) -> tensor<32x17x17xf32>
    %64 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
    %65 = tensor.empty() : tensor<32x16x16xf32>
    %66 = linalg.copy ins(%64 : tensor<32x16x16xf32>) outs(%65 : tensor<32x16x16xf32>) -> tensor<32x16x16xf32>
    %67 = "ftm.update"(%63, %66) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xf32>, tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %68 = tensor.empty() : tensor<32x17x17xi64>
    %69 = linalg.fill ins(%34 : i64) outs(%68 : tensor<32x17x17xi64>) -> tensor<32x17x17xi64>
    %70 = tensor.empty() : tensor<32x17x17xi64>
    %71 = linalg.copy ins(%69 : tensor<32x17x17xi64>) outs(%70 : tensor<32x17x17xi64>) -> tensor<32x17x17xi64>
    %72 = "ftm.update"(%71, %44) {offset = 0 : i64, strides = array<i64: 289, 17, 1>} : (tensor<32x17x17xi64>, tensor<32x16x16xi64>) -> tensor<32x17x17xi64>
    %73 = "ftm.view"(%67) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
    %74 = "ftm.view"(%72) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi64>) -> tensor<32x16x16x2x2xi64>
    %75 = "ftm.view"(%51) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi64>) -> tensor<16x2x16x2xi64>
    %76 = tensor.empty() : tensor<32x16x2x16x2xf32>
    %77 = linalg.fill ins(%59 : f32) outs(%76 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
    %78 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%73, %74, %75 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi64>, tensor<16x2x16x2xi64>) outs(%77 : tensor<32x16x2x16x2xf32>) {
    ^bb0(%in0: f32, %in1: i64, %in2: i64, %out0: f32):
      %79 = arith.cmpi eq, %in1, %in2 : i64
      %80 = arith.select %79, %in0, %59 : f32
      %81 = arith.addf %out0, %80 : f32
      linalg.yield %81 : f32
    } -> tensor<32x16x2x16x2xf32>
    %82 = "ftm.view"(%78) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
    %83 = tensor.empty() : tensor<2x16x32x31xf32>
    %84 = linalg.copy ins(%82 : tensor<2x16x32x31xf32>) outs(%83 : tensor<2x16x32x31xf32>) -> tensor<2x16x32x31xf32>
    %85 = "ftm.view"(%12) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %86 = "ftm.view"(%44) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    return %85, %86, %84 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
