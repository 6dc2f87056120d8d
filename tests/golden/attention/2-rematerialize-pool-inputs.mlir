module attributes {ftm.stage = "rematerialize-pool-inputs"} {
  func.func @main(%arg0: tensor<2x3x100x8xf32>, %arg1: tensor<2x3x130x8xf32>, %arg2: tensor<2x3x130x8xf32>, %arg3: f64, %arg4: f64, %arg5: f64, %arg6: f64) -> tensor<6x100x8xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<2x3x100x8xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x100x8xf32>) outs(%0 : tensor<2x3x100x8xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = arith.truncf %arg3 : f64 to f32
      %3 = arith.mulf %in0, %2 : f32
      linalg.yield %3 : f32
    } -> tensor<2x3x100x8xf32>
    %4 = "ftm.view"(%1) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
    %5 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<6x100x130xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
    %9 = linalg.batch_matmul ins(%4, %5 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%8 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
    %10 = tensor.empty() : tensor<100x130xi1>
    %12 = arith.constant 0 : i64
    %13 = arith.constant 0.0 : f64
    %14 = arith.constant false
    %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%10 : tensor<100x130xi1>) {
    ^bb0(%out0: i1):
      %15 = linalg.index 0 : index
      %16 = arith.index_cast %15 : index to i64
      %17 = arith.constant -1 : i64
      %18 = arith.muli %16, %17 : i64
      %19 = linalg.index 1 : index
      %20 = arith.index_cast %19 : index to i64
      %21 = arith.addi %18, %20 : i64
      %22 = arith.cmpi sle, %21, %12 : i64
      %23 = arith.cmpf une, %arg5, %13 : f64
      %24 = arith.select %22, %23, %14 : i1
      linalg.yield %24 : i1
    } -> tensor<100x130xi1>
    %25 = "ftm.view"(%9) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
    %26 = tensor.empty() : tensor<2x3x100x130xf32>
    %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11, %25 : tensor<100x130xi1>, tensor<2x3x100x130xf32>) outs(%26 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: i1, %in1: f32, %out0: f32):
      %28 = arith.truncf %arg4 : f64 to f32
      %29 = arith.select %in0, %in1, %28 : f32
      linalg.yield %29 : f32
    } -> tensor<2x3x100x130xf32>
    %30 = arith.constant 0xFF800000 : f32
    %31 = tensor.empty() : tensor<2x3x100xf32>
    %32 = linalg.fill ins(%30 : f32) outs(%31 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
    %33 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%27 : tensor<2x3x100x130xf32>) outs(%32 : tensor<2x3x100xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %34 = arith.maximumf %out0, %in0 : f32
      linalg.yield %34 : f32
    } -> tensor<2x3x100xf32>
    %35 = tensor.empty() : tensor<2x3x100xf32>
    %36 = linalg.fill ins(%6 : f32) outs(%35 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
    %37 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%27, %33 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%36 : tensor<2x3x100xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %38 = arith.subf %in0, %in1 : f32
      %39 = math.exp %38 : f32
      %40 = arith.addf %out0, %39 : f32
      linalg.yield %40 : f32
    } -> tensor<2x3x100xf32>
    %41 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%27, %33, %37 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%26 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
      %42 = arith.subf %in0, %in1 : f32
      %43 = math.exp %42 : f32
      %44 = arith.divf %43, %in2 : f32
      linalg.yield %44 : f32
    } -> tensor<2x3x100x130xf32>
    %45 = tensor.empty() : tensor<2x3x100x130xi1>
    %46 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%27 : tensor<2x3x100x130xf32>) outs(%45 : tensor<2x3x100x130xi1>) {
    ^bb0(%in0: f32, %out0: i1):
      %47 = arith.cmpf oeq, %in0, %30 : f32
      linalg.yield %47 : i1
    } -> tensor<2x3x100x130xi1>
    %48 = arith.constant true
    %49 = tensor.empty() : tensor<2x3x100xi1>
    %50 = linalg.fill ins(%48 : i1) outs(%49 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
    %51 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%46 : tensor<2x3x100x130xi1>) outs(%50 : tensor<2x3x100xi1>) {
    ^bb0(%in0: i1, %out0: i1):
      %52 = arith.andi %out0, %in0 : i1
      linalg.yield %52 : i1
    } -> tensor<2x3x100xi1>
    %53 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%51, %41 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%26 : tensor<2x3x100x130xf32>) {
    ^bb0(%in0: i1, %in1: f32, %out0: f32):
      %54 = arith.truncf %arg6 : f64 to f32
      %55 = arith.select %in0, %54, %in1 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x100x130xf32>
    %56 = "ftm.view"(%53) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
    %57 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
    %58 = tensor.empty() : tensor<6x100x8xf32>
    %59 = linalg.fill ins(%6 : f32) outs(%58 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
    %60 = linalg.batch_matmul ins(%56, %57 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%59 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
    return %60 : tensor<6x100x8xf32>
  }
}
