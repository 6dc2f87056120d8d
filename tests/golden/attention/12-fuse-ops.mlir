module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<2x3x100x8xf32>, %arg1: tensor<2x3x130x8xf32>, %arg2: tensor<2x3x130x8xf32>, %arg3: f64, %arg4: f64, %arg5: f64, %arg6: f64) -> tensor<6x100x8xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %4 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<2x3x100x8xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x100x8xf32>) outs(%0 : tensor<2x3x100x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %2 = arith.truncf %arg3 : f64 to f32
        %3 = arith.mulf %in0, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<2x3x100x8xf32>
      "ftm.yield"(%1) : (tensor<2x3x100x8xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<2x3x100x8xf32>)
    %20 = "ftm.kernel"() ({
      %5 = tensor.empty() : tensor<100x130xi1>
      %7 = arith.constant 0 : i64
      %8 = arith.constant 0.0 : f64
      %9 = arith.constant false
      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%5 : tensor<100x130xi1>) {
      ^bb0(%out0: i1):
        %10 = linalg.index 0 : index
        %11 = arith.index_cast %10 : index to i64
        %12 = arith.constant -1 : i64
        %13 = arith.muli %11, %12 : i64
        %14 = linalg.index 1 : index
        %15 = arith.index_cast %14 : index to i64
        %16 = arith.addi %13, %15 : i64
        %17 = arith.cmpi sle, %16, %7 : i64
        %18 = arith.cmpf une, %arg5, %8 : f64
        %19 = arith.select %17, %18, %9 : i1
        linalg.yield %19 : i1
      } -> tensor<100x130xi1>
      "ftm.yield"(%6) : (tensor<100x130xi1>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<100x130xi1>)
    %36:2 = "ftm.kernel"() ({
      %21 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
      %22 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
      %23 = arith.constant 0.0 : f32
      %24 = tensor.empty() : tensor<6x100x130xf32>
      %25 = linalg.fill ins(%23 : f32) outs(%24 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %26 = linalg.batch_matmul ins(%21, %22 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%25 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %27 = "ftm.view"(%26) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %28 = tensor.empty() : tensor<2x3x100x130xf32>
      %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%20, %27 : tensor<100x130xi1>, tensor<2x3x100x130xf32>) outs(%28 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: i1, %in1: f32, %out0: f32):
        %30 = arith.truncf %arg4 : f64 to f32
        %31 = arith.select %in0, %in1, %30 : f32
        linalg.yield %31 : f32
      } -> tensor<2x3x100x130xf32>
      %32 = tensor.empty() : tensor<2x3x100x130xi1>
      %34 = arith.constant 0xFF800000 : f32
      %33 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29 : tensor<2x3x100x130xf32>) outs(%32 : tensor<2x3x100x130xi1>) {
      ^bb0(%in0: f32, %out0: i1):
        %35 = arith.cmpf oeq, %in0, %34 : f32
        linalg.yield %35 : i1
      } -> tensor<2x3x100x130xi1>
      "ftm.yield"(%29, %33) : (tensor<2x3x100x130xf32>, tensor<2x3x100x130xi1>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x3x100x130xf32>, tensor<2x3x100x130xi1>)
    %62 = "ftm.kernel"() ({
      %37 = arith.constant 0xFF800000 : f32
      %38 = tensor.empty() : tensor<2x3x100xf32>
      %39 = linalg.fill ins(%37 : f32) outs(%38 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %40 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%36#0 : tensor<2x3x100x130xf32>) outs(%39 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %41 = arith.maximumf %out0, %in0 : f32
        linalg.yield %41 : f32
      } -> tensor<2x3x100xf32>
      %42 = arith.constant 0.0 : f32
      %43 = tensor.empty() : tensor<2x3x100xf32>
      %44 = linalg.fill ins(%42 : f32) outs(%43 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%36#0, %40 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%44 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %46 = arith.subf %in0, %in1 : f32
        %47 = math.exp %46 : f32
        %48 = arith.addf %out0, %47 : f32
        linalg.yield %48 : f32
      } -> tensor<2x3x100xf32>
      %49 = tensor.empty() : tensor<2x3x100x130xf32>
      %50 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%36#0, %40, %45 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%49 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %51 = arith.subf %in0, %in1 : f32
        %52 = math.exp %51 : f32
        %53 = arith.divf %52, %in2 : f32
        linalg.yield %53 : f32
      } -> tensor<2x3x100x130xf32>
      %54 = arith.constant true
      %55 = tensor.empty() : tensor<2x3x100xi1>
      %56 = linalg.fill ins(%54 : i1) outs(%55 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
      %57 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%36#1 : tensor<2x3x100x130xi1>) outs(%56 : tensor<2x3x100xi1>) {
      ^bb0(%in0: i1, %out0: i1):
        %58 = arith.andi %out0, %in0 : i1
        linalg.yield %58 : i1
      } -> tensor<2x3x100xi1>
      %59 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%57, %50 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%49 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: i1, %in1: f32, %out0: f32):
        %60 = arith.truncf %arg6 : f64 to f32
        %61 = arith.select %in0, %60, %in1 : f32
        linalg.yield %61 : f32
      } -> tensor<2x3x100x130xf32>
      "ftm.yield"(%59) : (tensor<2x3x100x130xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x3x100x130xf32>)
    %69 = "ftm.kernel"() ({
      %63 = "ftm.view"(%62) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
      %64 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
      %65 = arith.constant 0.0 : f32
      %66 = tensor.empty() : tensor<6x100x8xf32>
      %67 = linalg.fill ins(%65 : f32) outs(%66 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %68 = linalg.batch_matmul ins(%63, %64 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%67 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      "ftm.yield"(%68) : (tensor<6x100x8xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<6x100x8xf32>)
    return %69 : tensor<6x100x8xf32>
  }
}
