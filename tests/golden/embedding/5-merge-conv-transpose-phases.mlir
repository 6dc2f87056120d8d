module attributes {ftm.stage = "merge-conv-transpose-phases"} {
  func.func @main(%arg0: tensor<10x16xf32>, %arg1: tensor<4x6xi64>, %arg2: tensor<4x6x16xf32>, %arg3: f64) -> tensor<10x16xf32> attributes {ftm.inputs = ["f32", "i64", "f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<4x6x16xf32>
    %2 = arith.constant 0 : i64
    %3 = arith.constant 10 : i64
    %4 = arith.constant 68719476736 : i64
    %5 = arith.constant 16 : i64
    %6 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1>} : (tensor<10x16xf32>) -> tensor<160xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg1 : tensor<4x6xi64>) outs(%0 : tensor<4x6x16xf32>) {
    ^bb0(%in0: i64, %out0: f32):
      %7 = arith.cmpi sge, %in0, %2 : i64
      %8 = arith.cmpi slt, %in0, %3 : i64
      %9 = arith.andi %7, %8 : i1
      %10 = arith.select %9, %in0, %4 : i64
      %11 = arith.muli %10, %5 : i64
      %12 = linalg.index 2 : index
      %13 = arith.index_cast %12 : index to i64
      %14 = arith.addi %11, %13 : i64
      %15 = arith.index_cast %14 : i64 to index
      %16 = tensor.extract %6[%15] : tensor<160xf32>
      linalg.yield %16 : f32
    } -> tensor<4x6x16xf32>
    %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %arg2 : tensor<4x6x16xf32>, tensor<4x6x16xf32>) outs(%0 : tensor<4x6x16xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %18 = arith.mulf %in0, %in1 : f32
      linalg.yield %18 : f32
    } -> tensor<4x6x16xf32>
    %19 = arith.constant 0.0 : f32
    %20 = tensor.empty() : tensor<10x16xf32>
    %21 = linalg.fill ins(%19 : f32) outs(%20 : tensor<10x16xf32>) -> tensor<10x16xf32>
    %22 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 1>} : (tensor<4x6xi64>) -> tensor<24xi64>
    %23 = "ftm.view"(%17) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<4x6x16xf32>) -> tensor<24x16xf32>
    %24 = "ftm.scatter"(%21, %22, %23) {reduce = "add"} : (tensor<10x16xf32>, tensor<24xi64>, tensor<24x16xf32>) -> tensor<10x16xf32>
    %25 = tensor.empty() : tensor<10x16xf32>
    %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%24 : tensor<10x16xf32>) outs(%25 : tensor<10x16xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %27 = arith.truncf %arg3 : f64 to f32
      %28 = arith.mulf %in0, %27 : f32
      linalg.yield %28 : f32
    } -> tensor<10x16xf32>
    %30 = arith.constant 1.0 : f32
    %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %26 : tensor<10x16xf32>, tensor<10x16xf32>) outs(%25 : tensor<10x16xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %31 = arith.mulf %in1, %30 : f32
      %32 = arith.subf %in0, %31 : f32
      linalg.yield %32 : f32
    } -> tensor<10x16xf32>
    return %29 : tensor<10x16xf32>
  }
}
