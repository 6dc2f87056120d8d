module attributes {ftm.stage = "resolve-in-place"} {
  func.func @main(%arg0: tensor<3x40x32xf32>) -> tensor<3x40x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<3x40x32xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<3x40x32xf32>) outs(%0 : tensor<3x40x32xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = arith.negf %in0 : f32
      linalg.yield %2 : f32
    } -> tensor<3x40x32xf32>
    %3 = arith.constant 0.0 : f32
    %4 = tensor.empty() : tensor<2x3x40x32xf32>
    %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<2x3x40x32xf32>) -> tensor<2x3x40x32xf32>
    %6 = tensor.empty() : tensor<2x3x40x32xf32>
    %7 = linalg.copy ins(%5 : tensor<2x3x40x32xf32>) outs(%6 : tensor<2x3x40x32xf32>) -> tensor<2x3x40x32xf32>
    %8 = "ftm.update"(%7, %1) {offset = 0 : i64, strides = array<i64: 1280, 32, 1>} : (tensor<2x3x40x32xf32>, tensor<3x40x32xf32>) -> tensor<2x3x40x32xf32>
    %9 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 1280, 32, 1, 3840>} : (tensor<2x3x40x32xf32>) -> tensor<3x40x32x2xf32>
    %10 = tensor.empty() : tensor<3x40x32x2xf32>
    %11 = linalg.copy ins(%9 : tensor<3x40x32x2xf32>) outs(%10 : tensor<3x40x32x2xf32>) -> tensor<3x40x32x2xf32>
    %12 = tensor.empty() : tensor<3x40x64xf32>
    %13 = linalg.fill ins(%3 : f32) outs(%12 : tensor<3x40x64xf32>) -> tensor<3x40x64xf32>
    %14 = tensor.empty() : tensor<3x40x64xf32>
    %15 = linalg.copy ins(%13 : tensor<3x40x64xf32>) outs(%14 : tensor<3x40x64xf32>) -> tensor<3x40x64xf32>
    %16 = "ftm.update"(%15, %11) {offset = 0 : i64, strides = array<i64: 2560, 64, 2, 1>} : (tensor<3x40x64xf32>, tensor<3x40x32x2xf32>) -> tensor<3x40x64xf32>
    return %16 : tensor<3x40x64xf32>
  }
}
