module attributes {ftm.stage = "lower-transposes"} {
  func.func @main(%arg0: tensor<2x3x100x8xf32>, %arg1: tensor<2x3x130x8xf32>, %arg2: tensor<2x3x130x8xf32>, %arg3: tensor<100x130xf32>, %arg4: tensor<6x100x8xf32>, %arg5: f64, %arg6: i64, %arg7: f64, %arg8: f64) -> (tensor<6x100x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>, tensor<6x130x8xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32", "f32"]} {
    %50:2 = "ftm.kernel"() ({
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
      %16 = tensor.empty() : tensor<2x3x100x130xi1>
      %18 = arith.constant 0xFF800000 : f32
      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12 : tensor<2x3x100x130xf32>) outs(%16 : tensor<2x3x100x130xi1>) {
      ^bb0(%in0: f32, %out0: i1):
        %19 = arith.cmpf oeq, %in0, %18 : f32
        linalg.yield %19 : i1
      } -> tensor<2x3x100x130xi1>
      %20 = tensor.empty() : tensor<2x3x100xf32>
      %21 = linalg.fill ins(%18 : f32) outs(%20 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%12 : tensor<2x3x100x130xf32>) outs(%21 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %23 = arith.maximumf %out0, %in0 : f32
        linalg.yield %23 : f32
      } -> tensor<2x3x100xf32>
      %24 = tensor.empty() : tensor<2x3x100xf32>
      %25 = linalg.fill ins(%6 : f32) outs(%24 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%12, %22 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%25 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %27 = arith.subf %in0, %in1 : f32
        %28 = math.exp %27 : f32
        %29 = arith.addf %out0, %28 : f32
        linalg.yield %29 : f32
      } -> tensor<2x3x100xf32>
      %30 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12, %22, %26 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%11 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %31 = arith.subf %in0, %in1 : f32
        %32 = math.exp %31 : f32
        %33 = arith.divf %32, %in2 : f32
        linalg.yield %33 : f32
      } -> tensor<2x3x100x130xf32>
      %34 = arith.constant true
      %35 = tensor.empty() : tensor<2x3x100xi1>
      %36 = linalg.fill ins(%34 : i1) outs(%35 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
      %37 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%17 : tensor<2x3x100x130xi1>) outs(%36 : tensor<2x3x100xi1>) {
      ^bb0(%in0: i1, %out0: i1):
        %38 = arith.andi %out0, %in0 : i1
        linalg.yield %38 : i1
      } -> tensor<2x3x100xi1>
      %39 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%37, %30 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%11 : tensor<2x3x100x130xf32>) {
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
      "ftm.yield"(%46, %48) : (tensor<6x100x8xf32>, tensor<6x100x8xf32>) -> ()
    }) {kind = "attention"} : () -> (tensor<6x100x8xf32>, tensor<6x100x8xf32>)
    %125:3 = "ftm.kernel"() ({
      %51 = tensor.empty() : tensor<2x3x100x8xf32>
      %52 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x100x8xf32>) outs(%51 : tensor<2x3x100x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %53 = arith.truncf %arg5 : f64 to f32
        %54 = arith.mulf %in0, %53 : f32
        linalg.yield %54 : f32
      } -> tensor<2x3x100x8xf32>
      %55 = "ftm.view"(%52) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
      %56 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
      %57 = arith.constant 0.0 : f32
      %58 = tensor.empty() : tensor<6x100x130xf32>
      %59 = linalg.fill ins(%57 : f32) outs(%58 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %60 = linalg.batch_matmul ins(%55, %56 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%59 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %61 = "ftm.view"(%60) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %62 = tensor.empty() : tensor<2x3x100x130xf32>
      %63 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%61, %arg3 : tensor<2x3x100x130xf32>, tensor<100x130xf32>) outs(%62 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %64 = arith.sitofp %arg6 : i64 to f32
        %65 = arith.mulf %in1, %64 : f32
        %66 = arith.addf %in0, %65 : f32
        linalg.yield %66 : f32
      } -> tensor<2x3x100x130xf32>
      %67 = tensor.empty() : tensor<2x3x100x130xi1>
      %69 = arith.constant 0xFF800000 : f32
      %68 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%63 : tensor<2x3x100x130xf32>) outs(%67 : tensor<2x3x100x130xi1>) {
      ^bb0(%in0: f32, %out0: i1):
        %70 = arith.cmpf oeq, %in0, %69 : f32
        linalg.yield %70 : i1
      } -> tensor<2x3x100x130xi1>
      %71 = tensor.empty() : tensor<2x3x100xf32>
      %72 = linalg.fill ins(%69 : f32) outs(%71 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %73 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%63 : tensor<2x3x100x130xf32>) outs(%72 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %74 = arith.maximumf %out0, %in0 : f32
        linalg.yield %74 : f32
      } -> tensor<2x3x100xf32>
      %75 = tensor.empty() : tensor<2x3x100xf32>
      %76 = linalg.fill ins(%57 : f32) outs(%75 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %77 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%63, %73 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%76 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %78 = arith.subf %in0, %in1 : f32
        %79 = math.exp %78 : f32
        %80 = arith.addf %out0, %79 : f32
        linalg.yield %80 : f32
      } -> tensor<2x3x100xf32>
      %81 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%63, %73, %77 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%62 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %82 = arith.subf %in0, %in1 : f32
        %83 = math.exp %82 : f32
        %84 = arith.divf %83, %in2 : f32
        linalg.yield %84 : f32
      } -> tensor<2x3x100x130xf32>
      %85 = arith.constant true
      %86 = tensor.empty() : tensor<2x3x100xi1>
      %87 = linalg.fill ins(%85 : i1) outs(%86 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
      %88 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%68 : tensor<2x3x100x130xi1>) outs(%87 : tensor<2x3x100xi1>) {
      ^bb0(%in0: i1, %out0: i1):
        %89 = arith.andi %out0, %in0 : i1
        linalg.yield %89 : i1
      } -> tensor<2x3x100xi1>
      %90 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%88, %81 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%62 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: i1, %in1: f32, %out0: f32):
        %91 = arith.truncf %arg7 : f64 to f32
        %92 = arith.select %in0, %91, %in1 : f32
        linalg.yield %92 : f32
      } -> tensor<2x3x100x130xf32>
      %93 = "ftm.view"(%90) {offset = 0 : i64, strides = array<i64: 13000, 1, 130>} : (tensor<2x3x100x130xf32>) -> tensor<6x130x100xf32>
      %94 = tensor.empty() : tensor<6x130x8xf32>
      %95 = linalg.fill ins(%57 : f32) outs(%94 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      %96 = linalg.batch_matmul ins(%93, %50#1 : tensor<6x130x100xf32>, tensor<6x100x8xf32>) outs(%95 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      %97 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
      %98 = tensor.empty() : tensor<6x100x130xf32>
      %99 = linalg.fill ins(%57 : f32) outs(%98 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %100 = linalg.batch_matmul ins(%50#1, %97 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%99 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %101 = "ftm.view"(%100) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %102 = tensor.empty() : tensor<2x3x100xf32>
      %103 = linalg.fill ins(%57 : f32) outs(%102 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %104 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%101, %90 : tensor<2x3x100x130xf32>, tensor<2x3x100x130xf32>) outs(%103 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %105 = arith.mulf %in0, %in1 : f32
        %106 = arith.addf %out0, %105 : f32
        linalg.yield %106 : f32
      } -> tensor<2x3x100xf32>
      %107 = "ftm.view"(%100) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %108 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%107, %90, %104 : tensor<2x3x100x130xf32>, tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%62 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %109 = arith.subf %in0, %in2 : f32
        %110 = arith.mulf %in1, %109 : f32
        linalg.yield %110 : f32
      } -> tensor<2x3x100x130xf32>
      %111 = "ftm.view"(%108) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
      %112 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
      %113 = tensor.empty() : tensor<6x100x8xf32>
      %114 = linalg.fill ins(%57 : f32) outs(%113 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %115 = linalg.batch_matmul ins(%111, %112 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%114 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %116 = tensor.empty() : tensor<6x100x8xf32>
      %117 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%115 : tensor<6x100x8xf32>) outs(%116 : tensor<6x100x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %118 = arith.truncf %arg8 : f64 to f32
        %119 = arith.mulf %in0, %118 : f32
        linalg.yield %119 : f32
      } -> tensor<6x100x8xf32>
      %120 = "ftm.view"(%108) {offset = 0 : i64, strides = array<i64: 13000, 1, 130>} : (tensor<2x3x100x130xf32>) -> tensor<6x130x100xf32>
      %121 = "ftm.view"(%52) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
      %122 = tensor.empty() : tensor<6x130x8xf32>
      %123 = linalg.fill ins(%57 : f32) outs(%122 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      %124 = linalg.batch_matmul ins(%120, %121 : tensor<6x130x100xf32>, tensor<6x100x8xf32>) outs(%123 : tensor<6x130x8xf32>) -> tensor<6x130x8xf32>
      "ftm.yield"(%96, %117, %124) : (tensor<6x130x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>) -> ()
    }) {kind = "attention-backward"} : () -> (tensor<6x130x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>)
    return %50#0, %125#1, %125#2, %125#0 : tensor<6x100x8xf32>, tensor<6x100x8xf32>, tensor<6x130x8xf32>, tensor<6x130x8xf32>
  }
}
