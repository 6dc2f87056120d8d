module attributes {ftm.stage = "share-kernels", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [2, 16, 14, 14]], [\"b1\", \"f32\", [2, 32, 28, 28]], [\"b2\", \"f32\", [16, 32, 3, 3]]], \"scalars\": [], \"outputs\": [[\"o0\", \"f32\", [2, 32, 28, 28], \"\"]], \"consts\": [], \"arena\": [[\"t0\", 0, \"f32\", [3, 3, 16, 32]]], \"windows\": [], \"arena_bytes\": 18432}"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 288, 9>} : (tensor<16x32x3x3xf32>) -> tensor<3x3x16x32xf32>
      %1 = tensor.empty() : tensor<3x3x16x32xf32>
      %2 = linalg.copy ins(%0 : tensor<3x3x16x32xf32>) outs(%1 : tensor<3x3x16x32xf32>) -> tensor<3x3x16x32xf32>
      "ftm.yield"(%2) : (tensor<3x3x16x32xf32>) -> ()
    }) {kind = "turn", one_core, inputs = ["b2"], outputs = ["t0"], call = "kernel_0, b2[0], t0[0]"} : () -> (tensor<3x3x16x32xf32>)
    %4 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %5 = "ftm.border"(%3) {low = array<i64: 0, 1, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<3x4x16x32xf32>
    %15 = "ftm.kernel"() ({
      %6 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 3600, 15, 1, 225, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x14x14x16x2xf32>
      %7 = "ftm.view"(%5) {offset = 3072 : i64, strides = array<i64: 1, 512, 32, -1024>} : (tensor<3x4x16x32xf32>) -> tensor<32x2x16x2xf32>
      %8 = tensor.empty() : tensor<1xi8>
      %9 = arith.constant 0.0 : f32
      %10 = tensor.empty() : tensor<2x1x32x14x14x2xf32>
      %11 = linalg.fill ins(%9 : f32) outs(%10 : tensor<2x1x32x14x14x2xf32>) -> tensor<2x1x32x14x14x2xf32>
      %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d6, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d2, d5, d6, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%6, %7, %8 : tensor<2x14x14x16x2xf32>, tensor<32x2x16x2xf32>, tensor<1xi8>) outs(%11 : tensor<2x1x32x14x14x2xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %13 = arith.mulf %in0, %in1 : f32
        %14 = arith.addf %out0, %13 : f32
        linalg.yield %14 : f32
      } -> tensor<2x1x32x14x14x2xf32>
      "ftm.yield"(%12) : (tensor<2x1x32x14x14x2xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["o0"], call = "kernel_1, b0[0], t0[0], o0[0]"} : () -> (tensor<2x1x32x14x14x2xf32>)
    %16 = "ftm.border"(%3) {low = array<i64: 0, 1, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<3x4x16x32xf32>
    %25 = "ftm.kernel"() ({
      %17 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 3600, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x14x14x16x2x2xf32>
      %18 = "ftm.view"(%16) {offset = 5120 : i64, strides = array<i64: 1, 512, 32, -4096, -1024>} : (tensor<3x4x16x32xf32>) -> tensor<32x2x16x2x2xf32>
      %19 = arith.constant 0.0 : f32
      %20 = tensor.empty() : tensor<2x1x32x14x14x2xf32>
      %21 = linalg.fill ins(%19 : f32) outs(%20 : tensor<2x1x32x14x14x2xf32>) -> tensor<2x1x32x14x14x2xf32>
      %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d2, d5, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%17, %18 : tensor<2x14x14x16x2x2xf32>, tensor<32x2x16x2x2xf32>) outs(%21 : tensor<2x1x32x14x14x2xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %23 = arith.mulf %in0, %in1 : f32
        %24 = arith.addf %out0, %23 : f32
        linalg.yield %24 : f32
      } -> tensor<2x1x32x14x14x2xf32>
      "ftm.yield"(%22) : (tensor<2x1x32x14x14x2xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["o0"], call = "kernel_2, b0[0], t0[0], o0[28]"} : () -> (tensor<2x1x32x14x14x2xf32>)
    %26 = tensor.empty() : tensor<2x32x28x28xf32>
    %27 = "ftm.update"(%26, %15) {offset = 0 : i64, strides = array<i64: 25088, 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x1x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %28 = "ftm.update"(%27, %25) {offset = 28 : i64, strides = array<i64: 25088, 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x1x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %28 : tensor<2x32x28x28xf32>
  }
}
