module attributes {ftm.stage = "merge-conv-transpose-phases"} {
  func.func @main(%arg0: tensor<3x40x32xf32>) -> tensor<3x40x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<3x40x32xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<3x40x32xf32>) outs(%0 : tensor<3x40x32xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = arith.negf %in0 : f32
      linalg.yield %2 : f32
    } -> tensor<3x40x32xf32>
    %3 = arith.constant 0.0 : f32
    %4 = tensor.empty() : tensor<3x40x64xf32>
    %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<3x40x64xf32>) -> tensor<3x40x64xf32>
    %6 = "ftm.update"(%5, %1) {offset = 0 : i64, strides = array<i64: 2560, 64, 2>} : (tensor<3x40x64xf32>, tensor<3x40x32xf32>) -> tensor<3x40x64xf32>
    return %6 : tensor<3x40x64xf32>
  }
}
