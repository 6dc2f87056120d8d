module attributes {ftm.stage = "order-kernels"} {
  func.func @main(%arg0: tensor<4x48x14x14xf32>, %arg1: tensor<4x40x14x14xf32>, %arg2: tensor<48x40x3x3xf32>) -> tensor<4x40x14x14xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 360, 9>} : (tensor<48x40x3x3xf32>) -> tensor<3x3x48x40xf32>
      %1 = tensor.empty() : tensor<3x3x48x40xf32>
      %2 = linalg.copy ins(%0 : tensor<3x3x48x40xf32>) outs(%1 : tensor<3x3x48x40xf32>) -> tensor<3x3x48x40xf32>
      "ftm.yield"(%2) : (tensor<3x3x48x40xf32>) -> ()
    }) {kind = "turn", one_core} : () -> (tensor<3x3x48x40xf32>)
    %4 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<4x48x14x14xf32>) -> tensor<4x48x16x16xf32>
    %13 = "ftm.kernel"() ({
      %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 12288, 16, 1, 256, 16, 1>} : (tensor<4x48x16x16xf32>) -> tensor<4x14x14x48x3x3xf32>
      %6 = "ftm.view"(%3) {offset = 15360 : i64, strides = array<i64: 1, 40, -5760, -1920>} : (tensor<3x3x48x40xf32>) -> tensor<40x48x3x3xf32>
      %7 = arith.constant 0.0 : f32
      %8 = tensor.empty() : tensor<4x40x14x14xf32>
      %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<4x40x14x14xf32>) -> tensor<4x40x14x14xf32>
      %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%5, %6 : tensor<4x14x14x48x3x3xf32>, tensor<40x48x3x3xf32>) outs(%9 : tensor<4x40x14x14xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %11 = arith.mulf %in0, %in1 : f32
        %12 = arith.addf %out0, %11 : f32
        linalg.yield %12 : f32
      } -> tensor<4x40x14x14xf32>
      "ftm.yield"(%10) : (tensor<4x40x14x14xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x40x14x14xf32>)
    return %13 : tensor<4x40x14x14xf32>
  }
}
