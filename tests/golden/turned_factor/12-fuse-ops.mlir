module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<2x48x2x14x14xf32>, %arg1: tensor<2x40x2x14x14xf32>, %arg2: tensor<48x40x1x3x3xf32>) -> tensor<2x40x2x14x14xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 360, 9>} : (tensor<48x40x1x3x3xf32>) -> tensor<3x3x48x40xf32>
      %1 = tensor.empty() : tensor<3x3x48x40xf32>
      %2 = linalg.copy ins(%0 : tensor<3x3x48x40xf32>) outs(%1 : tensor<3x3x48x40xf32>) -> tensor<3x3x48x40xf32>
      "ftm.yield"(%2) : (tensor<3x3x48x40xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<3x3x48x40xf32>)
    %4 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 1, 1>} : (tensor<2x48x2x14x14xf32>) -> tensor<2x48x2x16x16xf32>
    %14 = "ftm.kernel"() ({
      %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 24576, 256, 16, 1, 512, 16, 1>} : (tensor<2x48x2x16x16xf32>) -> tensor<2x2x14x14x48x3x3xf32>
      %6 = "ftm.view"(%3) {offset = 15360 : i64, strides = array<i64: 1, 40, -5760, -1920>} : (tensor<3x3x48x40xf32>) -> tensor<40x48x3x3xf32>
      %7 = tensor.empty() : tensor<1xi8>
      %8 = arith.constant 0.0 : f32
      %9 = tensor.empty() : tensor<2x1x40x2x14x14xf32>
      %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<2x1x40x2x14x14xf32>) -> tensor<2x1x40x2x14x14xf32>
      %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d3, d4, d5, d6, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d2, d6, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%5, %6, %7 : tensor<2x2x14x14x48x3x3xf32>, tensor<40x48x3x3xf32>, tensor<1xi8>) outs(%10 : tensor<2x1x40x2x14x14xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %12 = arith.mulf %in0, %in1 : f32
        %13 = arith.addf %out0, %12 : f32
        linalg.yield %13 : f32
      } -> tensor<2x1x40x2x14x14xf32>
      "ftm.yield"(%11) : (tensor<2x1x40x2x14x14xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x1x40x2x14x14xf32>)
    %15 = "ftm.view"(%14) {offset = 0 : i64, strides = array<i64: 15680, 392, 196, 14, 1>} : (tensor<2x1x40x2x14x14xf32>) -> tensor<2x40x2x14x14xf32>
    return %15 : tensor<2x40x2x14x14xf32>
  }
}
