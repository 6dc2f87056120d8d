module attributes {ftm.stage = "outline-kernels", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [2, 3, 100, 8]], [\"b1\", \"f32\", [2, 3, 130, 8]], [\"b2\", \"f32\", [2, 3, 130, 8]]], \"scalars\": [[\"s0\", \"f64\"], [\"s1\", \"f64\"], [\"s2\", \"f64\"], [\"s3\", \"f64\"]], \"outputs\": [[\"o0\", \"f32\", [6, 100, 8], \"\"]], \"consts\": [], \"arena\": [], \"windows\": [], \"arena_bytes\": 0}"} {
  func.func @main(%arg0: tensor<2x3x100x8xf32>, %arg1: tensor<2x3x130x8xf32>, %arg2: tensor<2x3x130x8xf32>, %arg3: f64, %arg4: f64, %arg5: f64, %arg6: f64) -> tensor<6x100x8xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %61 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<100x130xi1>
      %2 = arith.constant 0 : i64
      %3 = arith.constant 0.0 : f64
      %4 = arith.constant false
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%0 : tensor<100x130xi1>) {
      ^bb0(%out0: i1):
        %5 = linalg.index 0 : index
        %6 = arith.index_cast %5 : index to i64
        %7 = arith.constant -1 : i64
        %8 = arith.muli %6, %7 : i64
        %9 = linalg.index 1 : index
        %10 = arith.index_cast %9 : index to i64
        %11 = arith.addi %8, %10 : i64
        %12 = arith.cmpi sle, %11, %2 : i64
        %13 = arith.cmpf une, %arg5, %3 : f64
        %14 = arith.select %12, %13, %4 : i1
        linalg.yield %14 : i1
      } -> tensor<100x130xi1>
      %15 = tensor.empty() : tensor<2x3x100x8xf32>
      %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x100x8xf32>) outs(%15 : tensor<2x3x100x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %17 = arith.truncf %arg3 : f64 to f32
        %18 = arith.mulf %in0, %17 : f32
        linalg.yield %18 : f32
      } -> tensor<2x3x100x8xf32>
      %19 = "ftm.view"(%16) {offset = 0 : i64, strides = array<i64: 800, 8, 1>} : (tensor<2x3x100x8xf32>) -> tensor<6x100x8xf32>
      %20 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1040, 1, 8>} : (tensor<2x3x130x8xf32>) -> tensor<6x8x130xf32>
      %21 = arith.constant 0.0 : f32
      %22 = tensor.empty() : tensor<6x100x130xf32>
      %23 = linalg.fill ins(%21 : f32) outs(%22 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %24 = linalg.batch_matmul ins(%19, %20 : tensor<6x100x8xf32>, tensor<6x8x130xf32>) outs(%23 : tensor<6x100x130xf32>) -> tensor<6x100x130xf32>
      %25 = "ftm.view"(%24) {offset = 0 : i64, strides = array<i64: 39000, 13000, 130, 1>} : (tensor<6x100x130xf32>) -> tensor<2x3x100x130xf32>
      %26 = tensor.empty() : tensor<2x3x100x130xf32>
      %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %25 : tensor<100x130xi1>, tensor<2x3x100x130xf32>) outs(%26 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: i1, %in1: f32, %out0: f32):
        %28 = arith.truncf %arg4 : f64 to f32
        %29 = arith.select %in0, %in1, %28 : f32
        linalg.yield %29 : f32
      } -> tensor<2x3x100x130xf32>
      %30 = tensor.empty() : tensor<2x3x100x130xi1>
      %32 = arith.constant 0xFF800000 : f32
      %31 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%27 : tensor<2x3x100x130xf32>) outs(%30 : tensor<2x3x100x130xi1>) {
      ^bb0(%in0: f32, %out0: i1):
        %33 = arith.cmpf oeq, %in0, %32 : f32
        linalg.yield %33 : i1
      } -> tensor<2x3x100x130xi1>
      %34 = tensor.empty() : tensor<2x3x100xf32>
      %35 = linalg.fill ins(%32 : f32) outs(%34 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %36 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%27 : tensor<2x3x100x130xf32>) outs(%35 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %37 = arith.maximumf %out0, %in0 : f32
        linalg.yield %37 : f32
      } -> tensor<2x3x100xf32>
      %38 = tensor.empty() : tensor<2x3x100xf32>
      %39 = linalg.fill ins(%21 : f32) outs(%38 : tensor<2x3x100xf32>) -> tensor<2x3x100xf32>
      %40 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%27, %36 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>) outs(%39 : tensor<2x3x100xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %41 = arith.subf %in0, %in1 : f32
        %42 = math.exp %41 : f32
        %43 = arith.addf %out0, %42 : f32
        linalg.yield %43 : f32
      } -> tensor<2x3x100xf32>
      %44 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%27, %36, %40 : tensor<2x3x100x130xf32>, tensor<2x3x100xf32>, tensor<2x3x100xf32>) outs(%26 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %45 = arith.subf %in0, %in1 : f32
        %46 = math.exp %45 : f32
        %47 = arith.divf %46, %in2 : f32
        linalg.yield %47 : f32
      } -> tensor<2x3x100x130xf32>
      %48 = arith.constant true
      %49 = tensor.empty() : tensor<2x3x100xi1>
      %50 = linalg.fill ins(%48 : i1) outs(%49 : tensor<2x3x100xi1>) -> tensor<2x3x100xi1>
      %51 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%31 : tensor<2x3x100x130xi1>) outs(%50 : tensor<2x3x100xi1>) {
      ^bb0(%in0: i1, %out0: i1):
        %52 = arith.andi %out0, %in0 : i1
        linalg.yield %52 : i1
      } -> tensor<2x3x100xi1>
      %53 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%51, %44 : tensor<2x3x100xi1>, tensor<2x3x100x130xf32>) outs(%26 : tensor<2x3x100x130xf32>) {
      ^bb0(%in0: i1, %in1: f32, %out0: f32):
        %54 = arith.truncf %arg6 : f64 to f32
        %55 = arith.select %in0, %54, %in1 : f32
        linalg.yield %55 : f32
      } -> tensor<2x3x100x130xf32>
      %56 = "ftm.view"(%53) {offset = 0 : i64, strides = array<i64: 13000, 130, 1>} : (tensor<2x3x100x130xf32>) -> tensor<6x100x130xf32>
      %57 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 1040, 8, 1>} : (tensor<2x3x130x8xf32>) -> tensor<6x130x8xf32>
      %58 = tensor.empty() : tensor<6x100x8xf32>
      %59 = linalg.fill ins(%21 : f32) outs(%58 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      %60 = linalg.batch_matmul ins(%56, %57 : tensor<6x100x130xf32>, tensor<6x130x8xf32>) outs(%59 : tensor<6x100x8xf32>) -> tensor<6x100x8xf32>
      "ftm.yield"(%60) : (tensor<6x100x8xf32>) -> ()
    }) {kind = "attention", inputs = ["b0", "b1", "b2"], outputs = ["o0"], call = "kernel_0, b0[0], b1[0], b2[0], o0[0], s2, s0, s1, s3"} : () -> (tensor<6x100x8xf32>)
    return %61 : tensor<6x100x8xf32>
  }
}
