module attributes {ftm.stage = "fuse-gemm-reduction"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x16x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 144, 9>} : (tensor<16x16x3x3xf32>) -> tensor<3x3x16x16xf32>
      %1 = tensor.empty() : tensor<3x3x16x16xf32>
      %2 = linalg.copy ins(%0 : tensor<3x3x16x16xf32>) outs(%1 : tensor<3x3x16x16xf32>) -> tensor<3x3x16x16xf32>
      "ftm.yield"(%2) : (tensor<3x3x16x16xf32>) -> ()
    }) {kind = "turn", one_core} : () -> (tensor<3x3x16x16xf32>)
    %7 = "ftm.kernel"() ({
      %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 128, 1, 16, 768, 256>} : (tensor<3x3x16x16xf32>) -> tensor<2x16x8x3x3xf32>
      %5 = tensor.empty() : tensor<2x16x8x3x3xf32>
      %6 = linalg.copy ins(%4 : tensor<2x16x8x3x3xf32>) outs(%5 : tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x3xf32>
      "ftm.yield"(%6) : (tensor<2x16x8x3x3xf32>) -> ()
    }) {kind = "turn", one_core} : () -> (tensor<2x16x8x3x3xf32>)
    %8 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %9 = "ftm.border"(%7) {low = array<i64: 0, 0, 0, 0, 1>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x4xf32>
    %19 = "ftm.kernel"() ({
      %10 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2xf32>
      %11 = "ftm.view"(%9) {offset = 6 : i64, strides = array<i64: 1536, 96, 1, 12, -2>} : (tensor<2x16x8x3x4xf32>) -> tensor<2x16x2x8x2xf32>
      %12 = tensor.empty() : tensor<1xi8>
      %13 = arith.constant 0.0 : f32
      %14 = tensor.empty() : tensor<2x2x1x16x14x14x2xf32>
      %15 = linalg.fill ins(%13 : f32) outs(%14 : tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x2x1x16x14x14x2xf32>
      %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d4, d5, d7, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d1, d3, d6, d7, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5, d6)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%10, %11, %12 : tensor<2x2x14x14x8x2xf32>, tensor<2x16x2x8x2xf32>, tensor<1xi8>) outs(%15 : tensor<2x2x1x16x14x14x2xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %17 = arith.mulf %in0, %in1 : f32
        %18 = arith.addf %out0, %17 : f32
        linalg.yield %18 : f32
      } -> tensor<2x2x1x16x14x14x2xf32>
      "ftm.yield"(%16) : (tensor<2x2x1x16x14x14x2xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x2x1x16x14x14x2xf32>)
    %20 = "ftm.border"(%7) {low = array<i64: 0, 0, 0, 0, 1>} : (tensor<2x16x8x3x3xf32>) -> tensor<2x16x8x3x4xf32>
    %29 = "ftm.kernel"() ({
      %21 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 3600, 1800, 15, 1, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x2x14x14x8x2x2xf32>
      %22 = "ftm.view"(%20) {offset = 10 : i64, strides = array<i64: 1536, 96, 1, 12, -8, -2>} : (tensor<2x16x8x3x4xf32>) -> tensor<2x16x2x8x2x2xf32>
      %23 = arith.constant 0.0 : f32
      %24 = tensor.empty() : tensor<2x2x1x16x14x14x2xf32>
      %25 = linalg.fill ins(%23 : f32) outs(%24 : tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x2x1x16x14x14x2xf32>
      %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d4, d5, d7, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d1, d3, d6, d7, d8, d9)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0, d1, d2, d3, d4, d5, d6)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%21, %22 : tensor<2x2x14x14x8x2x2xf32>, tensor<2x16x2x8x2x2xf32>) outs(%25 : tensor<2x2x1x16x14x14x2xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %27 = arith.mulf %in0, %in1 : f32
        %28 = arith.addf %out0, %27 : f32
        linalg.yield %28 : f32
      } -> tensor<2x2x1x16x14x14x2xf32>
      "ftm.yield"(%26) : (tensor<2x2x1x16x14x14x2xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x2x1x16x14x14x2xf32>)
    %30 = tensor.empty() : tensor<2x32x28x28xf32>
    %31 = "ftm.update"(%30, %19) {offset = 0 : i64, strides = array<i64: 25088, 12544, 12544, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %32 = "ftm.update"(%31, %29) {offset = 28 : i64, strides = array<i64: 25088, 12544, 12544, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x2x1x16x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %32 : tensor<2x32x28x28xf32>
  }
}
