module attributes {ftm.stage = "resolve-in-place"} {
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
    %14 = tensor.empty() : tensor<32x31xi32>
    %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%14 : tensor<32x31xi32>) {
    ^bb0(%out0: i32):
      %16 = linalg.index 0 : index
      %17 = arith.index_cast %16 : index to i64
      %18 = arith.constant 31 : i64
      %19 = arith.muli %17, %18 : i64
      %20 = linalg.index 1 : index
      %21 = arith.index_cast %20 : index to i64
      %22 = arith.addi %19, %21 : i64
      %23 = arith.trunci %22 : i64 to i32
      linalg.yield %23 : i32
    } -> tensor<32x31xi32>
    %24 = arith.constant 2147483647 : i32
    %25 = tensor.empty() : tensor<33x33xi32>
    %26 = linalg.fill ins(%24 : i32) outs(%25 : tensor<33x33xi32>) -> tensor<33x33xi32>
    %27 = tensor.empty() : tensor<33x33xi32>
    %28 = linalg.copy ins(%26 : tensor<33x33xi32>) outs(%27 : tensor<33x33xi32>) -> tensor<33x33xi32>
    %29 = "ftm.update"(%28, %15) {offset = 34 : i64, strides = array<i64: 33, 1>} : (tensor<33x33xi32>, tensor<32x31xi32>) -> tensor<33x33xi32>
    %30 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
    %31 = "ftm.view"(%29) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi32>) -> tensor<16x16x3x3xi32>
    %32 = tensor.empty() : tensor<32x16x16xi32>
    %33 = linalg.fill ins(%24 : i32) outs(%32 : tensor<32x16x16xi32>) -> tensor<32x16x16xi32>
    %35 = arith.constant -1 : i32
    %36 = arith.constant 1 : i32
    %34 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%30, %31, %12 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi32>, tensor<32x16x16xf32>) outs(%33 : tensor<32x16x16xi32>) {
    ^bb0(%in0: f32, %in1: i32, %in2: f32, %out0: i32):
      %37 = arith.cmpf une, %in0, %in0 : f32
      %38 = arith.muli %in1, %35 : i32
      %39 = arith.subi %38, %36 : i32
      %40 = arith.cmpf oeq, %in0, %in2 : f32
      %41 = arith.select %40, %in1, %24 : i32
      %42 = arith.select %37, %39, %41 : i32
      %43 = arith.minsi %out0, %42 : i32
      linalg.yield %43 : i32
    } -> tensor<32x16x16xi32>
    %44 = tensor.empty() : tensor<32x16x16xi32>
    %46 = arith.constant 0 : i32
    %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%34 : tensor<32x16x16xi32>) outs(%44 : tensor<32x16x16xi32>) {
    ^bb0(%in0: i32, %out0: i32):
      %47 = arith.cmpi slt, %in0, %46 : i32
      %48 = arith.muli %in0, %35 : i32
      %49 = arith.subi %48, %36 : i32
      %50 = arith.select %47, %49, %in0 : i32
      linalg.yield %50 : i32
    } -> tensor<32x16x16xi32>
    %51 = tensor.empty() : tensor<32x16x16xi64>
    %52 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%45 : tensor<32x16x16xi32>) outs(%51 : tensor<32x16x16xi64>) {
    ^bb0(%in0: i32, %out0: i64):
      %53 = arith.extsi %in0 : i32 to i64
      linalg.yield %53 : i64
    } -> tensor<32x16x16xi64>
    %54 = tensor.empty() : tensor<32x32xi32>
    %55 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%54 : tensor<32x32xi32>) {
    ^bb0(%out0: i32):
      %56 = linalg.index 0 : index
      %57 = arith.index_cast %56 : index to i64
      %58 = arith.constant 31 : i64
      %59 = arith.muli %57, %58 : i64
      %60 = linalg.index 1 : index
      %61 = arith.index_cast %60 : index to i64
      %62 = arith.addi %59, %61 : i64
      %63 = arith.trunci %62 : i64 to i32
      linalg.yield %63 : i32
    } -> tensor<32x32xi32>
    %64 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
    %65 = "ftm.border"(%64) {low = array<i64: 0, 0, 0>} : (tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %66 = "ftm.view"(%65) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
    %67 = "ftm.border"(%45) {low = array<i64: 0, 0, 0>} : (tensor<32x16x16xi32>) -> tensor<32x17x17xi32>
    %68 = "ftm.view"(%67) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi32>) -> tensor<32x16x16x2x2xi32>
    %69 = "ftm.view"(%55) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi32>) -> tensor<16x2x16x2xi32>
    %70 = arith.constant 0.0 : f32
    %71 = tensor.empty() : tensor<32x16x2x16x2xf32>
    %72 = linalg.fill ins(%70 : f32) outs(%71 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
    %73 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%66, %68, %69 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi32>, tensor<16x2x16x2xi32>) outs(%72 : tensor<32x16x2x16x2xf32>) {
    ^bb0(%in0: f32, %in1: i32, %in2: i32, %out0: f32):
      %74 = arith.cmpi eq, %in1, %in2 : i32
      %75 = arith.select %74, %in0, %70 : f32
      %76 = arith.addf %out0, %75 : f32
      linalg.yield %76 : f32
    } -> tensor<32x16x2x16x2xf32>
    %77 = "ftm.view"(%73) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
    %78 = tensor.empty() : tensor<2x16x32x31xf32>
    %79 = linalg.copy ins(%77 : tensor<2x16x32x31xf32>) outs(%78 : tensor<2x16x32x31xf32>) -> tensor<2x16x32x31xf32>
    %80 = "ftm.view"(%12) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %81 = "ftm.view"(%52) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    return %80, %81, %79 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
