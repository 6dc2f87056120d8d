module attributes {ftm.stage = "fold-pad-into-load"} {
  func.func @main(%arg0: tensor<2x3x100x8xf32>, %arg1: tensor<2x3x130x8xf32>, %arg2: tensor<2x3x130x8xf32>, %arg3: tensor<100x130xf32>, %arg4: tensor<6x100x8xf32>, %arg5: f64, %arg6: i64, %arg7: f64, %arg8: f64) -> (tensor<6x100x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>, tensor<6x130x8xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32", "f32"]} {
    %0 = tensor.empty() : tensor<2x3x100x8xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x100x8xf32>) outs(%0 : tensor<2x3x100x8xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = arith.truncf %arg5 : f64 to f32
      %3 = arith.mulf %in0, %2 : f32
      linalg.yield %3 : f32
    } -> tensor<2x3x100x8xf32>
    %4 = "ftm.view"(%1) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
    %5 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<6x100x130xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
    %9 = linalg.batch_matmul ins(%4, %5 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%8 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
    %10 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
    %11 = tensor.empty() : tensor<2x3x100x130xf32>
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10, %arg3 : tensor<2x3x100x130xf32>, tensor<100x130xf32>) outs(%11 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %13 = arith.sitofp %arg6 : i64 to f32
      %14 = arith.mulf %in1, %13 : f32
      %15 = arith.addf %in0, %14 : f32
      linalg.yield %15 : f32
    } -> tensor<2x3x100x130xf32>
    %16 = arith.constant 0xFF800000 : f32
    %17 = tensor.empty() : tensor<2x3x100xf32>
    %18 = linalg.fill ins(%16 : f32) outs(%17 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
    %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%12 : tensor<2x3x100x130xf32>) outs(%18 : tensor<2x3x100xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %20 = arith.maximumf %out0, %in0 : f32
      linalg.yield %20 : f32
    } -> tensor<2x3x100xf32>
    %21 = tensor.empty() : tensor<2x3x100xf32>
    %22 = linalg.fill ins(%6 : f32) outs(%21 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
    %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%12, %19 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%22 : tensor<2x3x100xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %24 = arith.subf %in0, %in1 : f32
      %25 = math.exp %24 : f32
      %26 = arith.addf %out0, %25 : f32
      linalg.yield %26 : f32
    } -> tensor<2x3x100xf32>
    %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12, %19, %23 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%11 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
      %28 = arith.subf %in0, %in1 : f32
      %29 = math.exp %28 : f32
      %30 = arith.divf %29, %in2 : f32
      linalg.yield %30 : f32
    } -> tensor<2x3x100x130xf32>
    %31 = tensor.empty() : tensor<2x3x100x130xi1>
    %32 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12 : tensor<2x3x100x130xf32>) outs(%31 : tensor<2x3x100x130xi1>) {
    ^bb0(%in0: f32, %out0: i1):
      %33 = arith.cmpf oeq, %in0, %16 : f32
      linalg.yield %33 : i1
    } -> tensor<2x3x100x130xi1>
    %34 = arith.constant true
    %35 = tensor.empty() : tensor<2x3x100xi1>
    %36 = linalg.fill ins(%34 : i1) outs(%35 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
    %37 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%32 : tensor<2x3x100x130xi1>) outs(%36 : tensor<2x3x100xi1>) {
    ^bb0(%in0: i1, %out0: i1):
      %38 = arith.andi %out0, %in0 : i1
      linalg.yield %38 : i1
    } -> tensor<2x3x100xi1>
    %39 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%37, %27 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%11 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: i1, %in1: f32, %out0: f32):
      %40 = arith.truncf %arg7 : f64 to f32
      %41 = arith.select %in0, %40, %in1 : f32
      linalg.yield %41 : f32
    } -> tensor<2x3x100x130xf32>
    %42 = "ftm.view"(%39) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
    %43 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
    %44 = tensor.empty() : tensor<6x100x8xf32>
    %45 = linalg.fill ins(%6 : f32) outs(%44 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
    %46 = linalg.batch_matmul ins(%42, %43 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%45 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
    %47 = tensor.empty() : tensor<6x100x8xf32>
    %48 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%46, %arg4 : tensor<6x100x8xf32>, tensor<6x100x8xf32>) outs(%47 : tensor<6x100x8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %49 = arith.mulf %in0, %in1 : f32
      linalg.yield %49 : f32
    } -> tensor<6x100x8xf32>
    %50 = "ftm.view"(%39) {offset = 0 : i64, strides = array<i64: 13000, 1, 130>} : (tensor<2x3x100x130xf32>) -> tensor<6x130x100xf32>
    %51 = tensor.empty() : tensor<6x130x8xf32>
    %52 = linalg.fill ins(%6 : f32) outs(%51 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
    %53 = linalg.batch_matmul ins(%50, %48 : tensor<6x130x100xf32>, tensor<6x100x8xf32>) outs(%52 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
    %54 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
    %55 = tensor.empty() : tensor<6x100x130xf32>
    %56 = linalg.fill ins(%6 : f32) outs(%55 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
    %57 = linalg.batch_matmul ins(%48, %54 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%56 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
    %58 = "ftm.view"(%57) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
    %59 = tensor.empty() : tensor<2x3x100xf32>
    %60 = linalg.fill ins(%6 : f32) outs(%59 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
    %61 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%58, %39 : tensor<2x3x100x130xf32>, tensor<2x3x100x130xf32>) outs(%60 : tensor<2x3x100xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %62 = arith.mulf %in0, %in1 : f32
      %63 = arith.addf %out0, %62 : f32
      linalg.yield %63 : f32
    } -> tensor<2x3x100xf32>
    %64 = "ftm.view"(%57) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
    %65 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%64, %39, %61 : tensor<2x3x100x130xf32>, tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%11 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
      %66 = arith.subf %in0, %in2 : f32
      %67 = arith.mulf %in1, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<2x3x100x130xf32>
    %68 = "ftm.view"(%65) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
    %69 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
    %70 = tensor.empty() : tensor<6x100x8xf32>
    %71 = linalg.fill ins(%6 : f32) outs(%70 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
    %72 = linalg.batch_matmul ins(%68, %69 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%71 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
    %73 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%72 : tensor<6x100x8xf32>) outs(%47 : tensor<6x100x8xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %74 = arith.truncf %arg8 : f64 to f32
      %75 = arith.mulf %in0, %74 : f32
      linalg.yield %75 : f32
    } -> tensor<6x100x8xf32>
    %76 = "ftm.view"(%65) {offset = 0 : i64, strides = array<i64: 13000, 1, 130>} : (tensor<2x3x100x130xf32>) -> tensor<6x130x100xf32>
    %77 = "ftm.view"(%1) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
    %78 = tensor.empty() : tensor<6x130x8xf32>
    %79 = linalg.fill ins(%6 : f32) outs(%78 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
    %80 = linalg.batch_matmul ins(%76, %77 : tensor<6x130x100xf32>, tensor<6x100x8xf32>) outs(%79 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
    return %46, %73, %80, %53 : tensor<6x100x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>, tensor<6x130x8xf32>
  }
}
