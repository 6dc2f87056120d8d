module attributes {ftm.stage = "fuse-elementwise-producers"} {
  func.func @main(%arg0: tensor<2x48x2x14x14xf32>, %arg1: tensor<2x40x2x14x14xf32>, %arg2: tensor<48x40x1x3x3xf32>) -> tensor<2x40x2x14x14xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 1, 1>} : (tensor<2x48x2x14x14xf32>) -> tensor<2x48x2x16x16xf32>
    %1 = "ftm.view"(%0) {offset = 0 : i64, strides = array<i64: 24576, 256, 16, 1, 512, 16, 1>} : (tensor<2x48x2x16x16xf32>) -> tensor<2x2x14x14x48x3x3xf32>
    %2 = "ftm.view"(%arg2) {offset = 8 : i64, strides = array<i64: 9, 360, -3, -1>} : (tensor<48x40x1x3x3xf32>) -> tensor<40x48x3x3xf32>
    %3 = tensor.empty() : tensor<1xi8>
    %4 = arith.constant 0.0 : f32
    %5 = tensor.empty() : tensor<2x1x40x2x14x14xf32>
    %6 = linalg.fill ins(%4 : f32) outs(%5 : tensor<2x1x40x2x14x14xf32>) -> tensor<2x1x40x2x14x14xf32>
    %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d3, d4, d5, d6, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d2, d6, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%1, %2, %3 : tensor<2x2x14x14x48x3x3xf32>, tensor<40x48x3x3xf32>, tensor<1xi8>) outs(%6 : tensor<2x1x40x2x14x14xf32>) {
    ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
      %8 = arith.mulf %in0, %in1 : f32
      %9 = arith.addf %out0, %8 : f32
      linalg.yield %9 : f32
    } -> tensor<2x1x40x2x14x14xf32>
    %10 = "ftm.view"(%7) {offset = 0 : i64, strides = array<i64: 15680, 392, 196, 14, 1>} : (tensor<2x1x40x2x14x14xf32>) -> tensor<2x40x2x14x14xf32>
    return %10 : tensor<2x40x2x14x14xf32>
  }
}
