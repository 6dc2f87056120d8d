module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<2x3x100x8xf32>, %arg1: tensor<2x3x130x8xf32>, %arg2: tensor<2x3x130x8xf32>, %arg3: tensor<100x130xf32>, %arg4: tensor<6x100x8xf32>, %arg5: f64, %arg6: i64, %arg7: f64, %arg8: f64) -> (tensor<6x100x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>, tensor<6x130x8xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32", "f32"]} {
    %4 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<2x3x100x8xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x100x8xf32>) outs(%0 : tensor<2x3x100x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %2 = arith.truncf %arg5 : f64 to f32
        %3 = arith.mulf %in0, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<2x3x100x8xf32>
      "ftm.yield"(%1) : (tensor<2x3x100x8xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<2x3x100x8xf32>)
    %21:2 = "ftm.kernel"() ({
      %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
      %6 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
      %7 = arith.constant 0.0 : f32
      %8 = tensor.empty() : tensor<6x100x130xf32>
      %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %10 = linalg.batch_matmul ins(%5, %6 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%9 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %11 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %12 = tensor.empty() : tensor<2x3x100x130xf32>
      %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11, %arg3 : tensor<2x3x100x130xf32>, tensor<100x130xf32>) outs(%12 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %14 = arith.sitofp %arg6 : i64 to f32
        %15 = arith.mulf %in1, %14 : f32
        %16 = arith.addf %in0, %15 : f32
        linalg.yield %16 : f32
      } -> tensor<2x3x100x130xf32>
      %17 = tensor.empty() : tensor<2x3x100x130xi1>
      %19 = arith.constant 0xFF800000 : f32
      %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13 : tensor<2x3x100x130xf32>) outs(%17 : tensor<2x3x100x130xi1>) {
      ^bb0(%in0: f32, %out0: i1):
        %20 = arith.cmpf oeq, %in0, %19 : f32
        linalg.yield %20 : i1
      } -> tensor<2x3x100x130xi1>
      "ftm.yield"(%13, %18) : (tensor<2x3x100x130xf32>, tensor<2x3x100x130xi1>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x3x100x130xf32>, tensor<2x3x100x130xi1>)
    %47 = "ftm.kernel"() ({
      %22 = arith.constant 0xFF800000 : f32
      %23 = tensor.empty() : tensor<2x3x100xf32>
      %24 = linalg.fill ins(%22 : f32) outs(%23 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %25 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%21#0 : tensor<2x3x100x130xf32>) outs(%24 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %26 = arith.maximumf %out0, %in0 : f32
        linalg.yield %26 : f32
      } -> tensor<2x3x100xf32>
      %27 = arith.constant 0.0 : f32
      %28 = tensor.empty() : tensor<2x3x100xf32>
      %29 = linalg.fill ins(%27 : f32) outs(%28 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %30 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%21#0, %25 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%29 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %31 = arith.subf %in0, %in1 : f32
        %32 = math.exp %31 : f32
        %33 = arith.addf %out0, %32 : f32
        linalg.yield %33 : f32
      } -> tensor<2x3x100xf32>
      %34 = tensor.empty() : tensor<2x3x100x130xf32>
      %35 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21#0, %25, %30 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%34 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %36 = arith.subf %in0, %in1 : f32
        %37 = math.exp %36 : f32
        %38 = arith.divf %37, %in2 : f32
        linalg.yield %38 : f32
      } -> tensor<2x3x100x130xf32>
      %39 = arith.constant true
      %40 = tensor.empty() : tensor<2x3x100xi1>
      %41 = linalg.fill ins(%39 : i1) outs(%40 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
      %42 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%21#1 : tensor<2x3x100x130xi1>) outs(%41 : tensor<2x3x100xi1>) {
      ^bb0(%in0: i1, %out0: i1):
        %43 = arith.andi %out0, %in0 : i1
        linalg.yield %43 : i1
      } -> tensor<2x3x100xi1>
      %44 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%42, %35 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%34 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: i1, %in1: f32, %out0: f32):
        %45 = arith.truncf %arg7 : f64 to f32
        %46 = arith.select %in0, %45, %in1 : f32
        linalg.yield %46 : f32
      } -> tensor<2x3x100x130xf32>
      "ftm.yield"(%44) : (tensor<2x3x100x130xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x3x100x130xf32>)
    %57:2 = "ftm.kernel"() ({
      %48 = "ftm.view"(%47) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
      %49 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
      %50 = arith.constant 0.0 : f32
      %51 = tensor.empty() : tensor<6x100x8xf32>
      %52 = linalg.fill ins(%50 : f32) outs(%51 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %53 = linalg.batch_matmul ins(%48, %49 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%52 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %54 = tensor.empty() : tensor<6x100x8xf32>
      %55 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%53, %arg4 : tensor<6x100x8xf32>, tensor<6x100x8xf32>) outs(%54 : tensor<6x100x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %56 = arith.mulf %in0, %in1 : f32
        linalg.yield %56 : f32
      } -> tensor<6x100x8xf32>
      "ftm.yield"(%53, %55) : (tensor<6x100x8xf32>, tensor<6x100x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<6x100x8xf32>, tensor<6x100x8xf32>)
    %63 = "ftm.kernel"() ({
      %58 = "ftm.view"(%47) {offset = 0 : i64, strides = array<i64: 13000, 1, 130>} : (tensor<2x3x100x130xf32>) -> tensor<6x130x100xf32>
      %59 = arith.constant 0.0 : f32
      %60 = tensor.empty() : tensor<6x130x8xf32>
      %61 = linalg.fill ins(%59 : f32) outs(%60 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      %62 = linalg.batch_matmul ins(%58, %57#1 : tensor<6x130x100xf32>, tensor<6x100x8xf32>) outs(%61 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      "ftm.yield"(%62) : (tensor<6x130x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<6x130x8xf32>)
    %69 = "ftm.kernel"() ({
      %64 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
      %65 = arith.constant 0.0 : f32
      %66 = tensor.empty() : tensor<6x100x130xf32>
      %67 = linalg.fill ins(%65 : f32) outs(%66 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %68 = linalg.batch_matmul ins(%57#1, %64 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%67 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      "ftm.yield"(%68) : (tensor<6x100x130xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<6x100x130xf32>)
    %82 = "ftm.kernel"() ({
      %70 = "ftm.view"(%69) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %71 = arith.constant 0.0 : f32
      %72 = tensor.empty() : tensor<2x3x100xf32>
      %73 = linalg.fill ins(%71 : f32) outs(%72 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %74 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%70, %47 : tensor<2x3x100x130xf32>, tensor<2x3x100x130xf32>) outs(%73 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %75 = arith.mulf %in0, %in1 : f32
        %76 = arith.addf %out0, %75 : f32
        linalg.yield %76 : f32
      } -> tensor<2x3x100xf32>
      %77 = "ftm.view"(%69) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %78 = tensor.empty() : tensor<2x3x100x130xf32>
      %79 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%77, %47, %74 : tensor<2x3x100x130xf32>, tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%78 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %80 = arith.subf %in0, %in2 : f32
        %81 = arith.mulf %in1, %80 : f32
        linalg.yield %81 : f32
      } -> tensor<2x3x100x130xf32>
      "ftm.yield"(%79) : (tensor<2x3x100x130xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x3x100x130xf32>)
    %93 = "ftm.kernel"() ({
      %83 = "ftm.view"(%82) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
      %84 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
      %85 = arith.constant 0.0 : f32
      %86 = tensor.empty() : tensor<6x100x8xf32>
      %87 = linalg.fill ins(%85 : f32) outs(%86 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %88 = linalg.batch_matmul ins(%83, %84 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%87 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %89 = tensor.empty() : tensor<6x100x8xf32>
      %90 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%88 : tensor<6x100x8xf32>) outs(%89 : tensor<6x100x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %91 = arith.truncf %arg8 : f64 to f32
        %92 = arith.mulf %in0, %91 : f32
        linalg.yield %92 : f32
      } -> tensor<6x100x8xf32>
      "ftm.yield"(%90) : (tensor<6x100x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<6x100x8xf32>)
    %100 = "ftm.kernel"() ({
      %94 = "ftm.view"(%82) {offset = 0 : i64, strides = array<i64: 13000, 1, 130>} : (tensor<2x3x100x130xf32>) -> tensor<6x130x100xf32>
      %95 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
      %96 = arith.constant 0.0 : f32
      %97 = tensor.empty() : tensor<6x130x8xf32>
      %98 = linalg.fill ins(%96 : f32) outs(%97 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      %99 = linalg.batch_matmul ins(%94, %95 : tensor<6x130x100xf32>, tensor<6x100x8xf32>) outs(%98 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      "ftm.yield"(%99) : (tensor<6x130x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<6x130x8xf32>)
    return %57#0, %93, %100, %63 : tensor<6x100x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>, tensor<6x130x8xf32>
  }
}
