module attributes {ftm.stage = "fuse-elementwise-producers"} {
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
    %10 = tensor.empty() : tensor<32x31xi32>
    %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%10 : tensor<32x31xi32>) {
    ^bb0(%out0: i32):
      %12 = linalg.index 0 : index
      %13 = arith.index_cast %12 : index to i64
      %14 = arith.constant 31 : i64
      %15 = arith.muli %13, %14 : i64
      %16 = linalg.index 1 : index
      %17 = arith.index_cast %16 : index to i64
      %18 = arith.addi %15, %17 : i64
      %19 = arith.trunci %18 : i64 to i32
      linalg.yield %19 : i32
    } -> tensor<32x31xi32>
    %20 = arith.constant 2147483647 : i32
    %21 = tensor.empty() : tensor<33x33xi32>
    %22 = linalg.fill ins(%20 : i32) outs(%21 : tensor<33x33xi32>) -> tensor<33x33xi32>
    %23 = "ftm.update"(%22, %11) {offset = 34 : i64, strides = array<i64: 33, 1>} : (tensor<33x33xi32>, tensor<32x31xi32>) -> tensor<33x33xi32>
    %24 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 1089, 66, 2, 33, 1>} : (tensor<32x33x33xf32>) -> tensor<32x16x16x3x3xf32>
    %25 = "ftm.view"(%23) {offset = 0 : i64, strides = array<i64: 66, 2, 33, 1>} : (tensor<33x33xi32>) -> tensor<16x16x3x3xi32>
    %26 = tensor.empty() : tensor<32x16x16xi32>
    %27 = linalg.fill ins(%20 : i32) outs(%26 : tensor<32x16x16xi32>) -> tensor<32x16x16xi32>
    %29 = arith.constant -1 : i32
    %30 = arith.constant 1 : i32
    %28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%24, %25, %8 : tensor<32x16x16x3x3xf32>, tensor<16x16x3x3xi32>, tensor<32x16x16xf32>) outs(%27 : tensor<32x16x16xi32>) {
    ^bb0(%in0: f32, %in1: i32, %in2: f32, %out0: i32):
      %31 = arith.cmpf une, %in0, %in0 : f32
      %32 = arith.muli %in1, %29 : i32
      %33 = arith.subi %32, %30 : i32
      %34 = arith.cmpf oeq, %in0, %in2 : f32
      %35 = arith.select %34, %in1, %20 : i32
      %36 = arith.select %31, %33, %35 : i32
      %37 = arith.minsi %out0, %36 : i32
      linalg.yield %37 : i32
    } -> tensor<32x16x16xi32>
    %38 = tensor.empty() : tensor<32x16x16xi32>
    %40 = arith.constant 0 : i32
    %39 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%28 : tensor<32x16x16xi32>) outs(%38 : tensor<32x16x16xi32>) {
    ^bb0(%in0: i32, %out0: i32):
      %41 = arith.cmpi slt, %in0, %40 : i32
      %42 = arith.muli %in0, %29 : i32
      %43 = arith.subi %42, %30 : i32
      %44 = arith.select %41, %43, %in0 : i32
      linalg.yield %44 : i32
    } -> tensor<32x16x16xi32>
    %45 = tensor.empty() : tensor<32x16x16xi64>
    %46 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%39 : tensor<32x16x16xi32>) outs(%45 : tensor<32x16x16xi64>) {
    ^bb0(%in0: i32, %out0: i64):
      %47 = arith.extsi %in0 : i32 to i64
      linalg.yield %47 : i64
    } -> tensor<32x16x16xi64>
    %48 = tensor.empty() : tensor<32x32xi32>
    %49 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%48 : tensor<32x32xi32>) {
    ^bb0(%out0: i32):
      %50 = linalg.index 0 : index
      %51 = arith.index_cast %50 : index to i64
      %52 = arith.constant 31 : i64
      %53 = arith.muli %51, %52 : i64
      %54 = linalg.index 1 : index
      %55 = arith.index_cast %54 : index to i64
      %56 = arith.addi %53, %55 : i64
      %57 = arith.trunci %56 : i64 to i32
      linalg.yield %57 : i32
    } -> tensor<32x32xi32>
    %58 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 256, 16, 1>} : (tensor<2x16x16x16xf32>) -> tensor<32x16x16xf32>
    %59 = "ftm.border"(%58) {low = array<i64: 0, 0, 0>} : (tensor<32x16x16xf32>) -> tensor<32x17x17xf32>
    %60 = "ftm.view"(%59) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xf32>) -> tensor<32x16x16x2x2xf32>
    %61 = "ftm.border"(%39) {low = array<i64: 0, 0, 0>} : (tensor<32x16x16xi32>) -> tensor<32x17x17xi32>
    %62 = "ftm.view"(%61) {offset = 0 : i64, strides = array<i64: 289, 17, 1, 17, 1>} : (tensor<32x17x17xi32>) -> tensor<32x16x16x2x2xi32>
    %63 = "ftm.view"(%49) {offset = 0 : i64, strides = array<i64: 64, 32, 2, 1>} : (tensor<32x32xi32>) -> tensor<16x2x16x2xi32>
    %64 = arith.constant 0.0 : f32
    %65 = tensor.empty() : tensor<32x16x2x16x2xf32>
    %66 = linalg.fill ins(%64 : f32) outs(%65 : tensor<32x16x2x16x2xf32>) -> tensor<32x16x2x16x2xf32>
    %67 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d3, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%60, %62, %63 : tensor<32x16x16x2x2xf32>, tensor<32x16x16x2x2xi32>, tensor<16x2x16x2xi32>) outs(%66 : tensor<32x16x2x16x2xf32>) {
    ^bb0(%in0: f32, %in1: i32, %in2: i32, %out0: f32):
      %68 = arith.cmpi eq, %in1, %in2 : i32
      %69 = arith.select %68, %in0, %64 : f32
      %70 = arith.addf %out0, %69 : f32
      linalg.yield %70 : f32
    } -> tensor<32x16x2x16x2xf32>
    %71 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %72 = "ftm.view"(%46) {offset = 0 : i64, strides = array<i64: 4096, 256, 16, 1>} : (tensor<32x16x16xi64>) -> tensor<2x16x16x16xi64>
    %73 = "ftm.view"(%67) {offset = 0 : i64, strides = array<i64: 16384, 1024, 32, 1>} : (tensor<32x16x2x16x2xf32>) -> tensor<2x16x32x31xf32>
    return %71, %72, %73 : tensor<2x16x16x16xf32>, tensor<2x16x16x16xi64>, tensor<2x16x32x31xf32>
  }
}
