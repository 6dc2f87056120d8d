module attributes {ftm.stage = "finish-folds"} {
  func.func @main(%arg0: tensor<524288xf32>, %arg1: tensor<786432xf32>) -> tensor<32x48xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %8 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 262144, 1, 32>} : (tensor<524288xf32>) -> tensor<2x32x8192xf32>
      %1 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 393216, 1, 48>} : (tensor<786432xf32>) -> tensor<2x48x8192xf32>
      %2 = arith.constant 0.0 : f32
      %3 = tensor.empty() : tensor<2x32x48xf32>
      %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<2x32x48xf32>) -> tensor<2x32x48xf32>
      %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%0, %1 : tensor<2x32x8192xf32>, tensor<2x48x8192xf32>) outs(%4 : tensor<2x32x48xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %6 = arith.mulf %in0, %in1 : f32
        %7 = arith.addf %out0, %6 : f32
        linalg.yield %7 : f32
      } -> tensor<2x32x48xf32>
      "ftm.yield"(%5) : (tensor<2x32x48xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x32x48xf32>)
    %14 = "ftm.kernel"() ({
      %9 = arith.constant 0.0 : f32
      %10 = tensor.empty() : tensor<32x48xf32>
      %11 = linalg.fill ins(%9 : f32) outs(%10 : tensor<32x48xf32>) -> tensor<32x48xf32>
      %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%8 : tensor<2x32x48xf32>) outs(%11 : tensor<32x48xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %13 = arith.addf %out0, %in0 : f32
        linalg.yield %13 : f32
      } -> tensor<32x48xf32>
      "ftm.yield"(%12) : (tensor<32x48xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<32x48xf32>)
    return %14 : tensor<32x48xf32>
  }
}
