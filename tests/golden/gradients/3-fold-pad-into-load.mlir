module attributes {ftm.stage = "fold-pad-into-load"} {
  func.func @main(%arg0: tensor<8x48x1x1xf32>, %arg1: tensor<8x48x1x1xf32>, %arg2: tensor<48x48x3x3xf32>, %arg3: tensor<48x48x3x3xf32>, %arg4: f64, %arg5: f64) -> (tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<8x48x1x1xf32>) -> tensor<8x48x3x3xf32>
    %1 = "ftm.view"(%arg2) {offset = 8 : i64, strides = array<i64: 9, 432, -3, -1>} : (tensor<48x48x3x3xf32>) -> tensor<48x48x3x3xf32>
    %2 = arith.constant 0.0 : f32
    %3 = tensor.empty() : tensor<8x48x1x1xf32>
    %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<8x48x1x1xf32>) -> tensor<8x48x1x1xf32>
    %5 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %1 : tensor<8x48x3x3xf32>, tensor<48x48x3x3xf32>) outs(%4 : tensor<8x48x1x1xf32>) -> tensor<8x48x1x1xf32>
    %6 = "ftm.border"(%arg1) {low = array<i64: 0, 0, 1, 1>} : (tensor<8x48x1x1xf32>) -> tensor<8x48x3x3xf32>
    %7 = tensor.empty() : tensor<1x1xi8>
    %8 = tensor.empty() : tensor<1x48x48x3x3xf32>
    %9 = linalg.fill ins(%2 : f32) outs(%8 : tensor<1x48x48x3x3xf32>) -> tensor<1x48x48x3x3xf32>
    %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d1, 0, 0)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%arg0, %6, %7 : tensor<8x48x1x1xf32>, tensor<8x48x3x3xf32>, tensor<1x1xi8>) outs(%9 : tensor<1x48x48x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %11 = arith.mulf %in0, %in1 : f32
      %12 = arith.addf %out0, %11 : f32
      linalg.yield %12 : f32
    } -> tensor<1x48x48x3x3xf32>
    %13 = tensor.empty() : tensor<48x48x3x3xf32>
    %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg3 : tensor<48x48x3x3xf32>) outs(%13 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %15 = arith.truncf %arg4 : f64 to f32
      %16 = arith.mulf %in0, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<48x48x3x3xf32>
    %18 = arith.constant 1.0 : f32
    %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14, %10 : tensor<48x48x3x3xf32>, tensor<1x48x48x3x3xf32>) outs(%13 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %19 = arith.mulf %in1, %18 : f32
      %20 = arith.addf %in0, %19 : f32
      linalg.yield %20 : f32
    } -> tensor<48x48x3x3xf32>
    %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17 : tensor<48x48x3x3xf32>) outs(%13 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %22 = arith.truncf %arg5 : f64 to f32
      %23 = arith.mulf %in0, %22 : f32
      linalg.yield %23 : f32
    } -> tensor<48x48x3x3xf32>
    %24 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2, %21 : tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) outs(%13 : tensor<48x48x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %25 = arith.mulf %in1, %18 : f32
      %26 = arith.subf %in0, %25 : f32
      linalg.yield %26 : f32
    } -> tensor<48x48x3x3xf32>
    return %5, %17, %24 : tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>
  }
}
