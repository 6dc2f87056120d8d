module attributes {ftm.stage = "schedule-kernels"} {
  func.func @main(%arg0: tensor<3x40x32xf32>) -> tensor<3x40x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %5 = "ftm.kernel"() ({
      %0 = arith.constant 0.0 : f32
      %1 = tensor.empty() : tensor<2x3x40x32xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2x3x40x32xf32>) -> tensor<2x3x40x32xf32>
      %3 = tensor.empty() : tensor<2x3x40x32xf32>
      %4 = linalg.copy ins(%2 : tensor<2x3x40x32xf32>) outs(%3 : tensor<2x3x40x32xf32>) -> tensor<2x3x40x32xf32>
      "ftm.yield"(%4) : (tensor<2x3x40x32xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<2x3x40x32xf32>)
    %9 = "ftm.kernel"() ({
      %6 = tensor.empty() : tensor<3x40x32xf32>
      %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<3x40x32xf32>) outs(%6 : tensor<3x40x32xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %8 = arith.negf %in0 : f32
        linalg.yield %8 : f32
      } -> tensor<3x40x32xf32>
      "ftm.yield"(%7) : (tensor<3x40x32xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<3x40x32xf32>)
    %10 = "ftm.update"(%5, %9) {offset = 0 : i64, strides = array<i64: 1280, 32, 1>} : (tensor<2x3x40x32xf32>, tensor<3x40x32xf32>) -> tensor<2x3x40x32xf32>
    %16 = "ftm.kernel"() ({
      %11 = arith.constant 0.0 : f32
      %12 = tensor.empty() : tensor<3x40x64xf32>
      %13 = linalg.fill ins(%11 : f32) outs(%12 : tensor<3x40x64xf32>) -> tensor<3x40x64xf32>
      %14 = tensor.empty() : tensor<3x40x64xf32>
      %15 = linalg.copy ins(%13 : tensor<3x40x64xf32>) outs(%14 : tensor<3x40x64xf32>) -> tensor<3x40x64xf32>
      "ftm.yield"(%15) : (tensor<3x40x64xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<3x40x64xf32>)
    %20 = "ftm.kernel"() ({
      %17 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 1280, 32, 1, 3840>} : (tensor<2x3x40x32xf32>) -> tensor<3x40x32x2xf32>
      %18 = tensor.empty() : tensor<3x40x32x2xf32>
      %19 = linalg.copy ins(%17 : tensor<3x40x32x2xf32>) outs(%18 : tensor<3x40x32x2xf32>) -> tensor<3x40x32x2xf32>
      "ftm.yield"(%19) : (tensor<3x40x32x2xf32>) -> ()
    }) {kind = "turn", one_core} : () -> (tensor<3x40x32x2xf32>)
    %21 = "ftm.update"(%16, %20) {offset = 0 : i64, strides = array<i64: 2560, 64, 2, 1>} : (tensor<3x40x64xf32>, tensor<3x40x32x2xf32>) -> tensor<3x40x64xf32>
    return %21 : tensor<3x40x64xf32>
  }
}
