module attributes {ftm.stage = "rematerialize-pool-inputs"} {
  func.func @main(%arg0: tensor<8x48x1x1xf32>, %arg1: tensor<8x48x1x1xf32>, %arg2: tensor<48x48x3x3xf32>, %arg3: tensor<48x48x3x3xf32>, %arg4: f64, %arg5: f64) -> (tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<8x48x3x3xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<8x48x3x3xf32>) -> tensor<8x48x3x3xf32>
    %3 = "ftm.update"(%2, %arg0) {offset = 4 : i64, strides = array<i64: 432, 9, 3, 1>} : (tensor<8x48x3x3xf32>, tensor<8x48x1x1xf32>) -> tensor<8x48x3x3xf32>
    %4 = "ftm.view"(%arg2) {offset = 8 : i64, strides = array<i64: 9, 432, -3, -1>} : (tensor<48x48x3x3xf32>) -> tensor<48x48x3x3xf32>
    %5 = tensor.empty() : tensor<8x48x1x1xf32>
    %6 = linalg.fill ins(%0 : f32) outs(%5 : tensor<8x48x1x1xf32>) -> tensor<8x48x1x1xf32>
    %7 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %4 : tensor<8x48x3x3xf32>, tensor<48x48x3x3xf32>) outs(%6 : tensor<8x48x1x1xf32>) -> tensor<8x48x1x1xf32>
    %8 = tensor.empty() : tensor<8x48x3x3xf32>
    %9 = linalg.fill ins(%0 : f32) outs(%8 : tensor<8x48x3x3xf32>) -> tensor<8x48x3x3xf32>
    %10 = "ftm.update"(%9, %arg1) {offset = 4 : i64, strides = array<i64: 432, 9, 3, 1>} : (tensor<8x48x3x3xf32>, tensor<8x48x1x1xf32>) -> tensor<8x48x3x3xf32>
    %11 = tensor.empty() : tensor<1x1xi8>
    %12 = tensor.empty() : tensor<1x48x48x3x3xf32>
    %13 = linalg.fill ins(%0 : f32) outs(%12 : tensor<1x48x48x3x3xf32>) -> tensor<1x48x48x3x3xf32>
    %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d1, 0, 0)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%arg0, %10, %11 : tensor<8x48x1x1xf32>, tensor<8x48x3x3xf32>, tensor<1x1xi8>) outs(%13 : tensor<1x48x48x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %15 = arith.mulf %in0, %in1 : f32
      %16 = arith.addf %out0, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<1x48x48x3x3xf32>
    %17 = tensor.empty() : tensor<48x48x3x3xf32>
    %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg3 : tensor<48x48x3x3xf32>) outs(%17 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %19 = arith.truncf %arg4 : f64 to f32
      %20 = arith.mulf %in0, %19 : f32
      linalg.yield %20 : f32
    } -> tensor<48x48x3x3xf32>
    %22 = arith.constant 1.0 : f32
    %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18, %14 : tensor<48x48x3x3xf32>, tensor<1x48x48x3x3xf32>) outs(%17 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %23 = arith.mulf %in1, %22 : f32
      %24 = arith.addf %in0, %23 : f32
      linalg.yield %24 : f32
    } -> tensor<48x48x3x3xf32>
    %25 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21 : tensor<48x48x3x3xf32>) outs(%17 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %26 = arith.truncf %arg5 : f64 to f32
      %27 = arith.mulf %in0, %26 : f32
      linalg.yield %27 : f32
    } -> tensor<48x48x3x3xf32>
    %28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2, %25 : tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) outs(%17 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %29 = arith.mulf %in1, %22 : f32
      %30 = arith.subf %in0, %29 : f32
      linalg.yield %30 : f32
    } -> tensor<48x48x3x3xf32>
    return %7, %21, %28 : tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>
  }
}
