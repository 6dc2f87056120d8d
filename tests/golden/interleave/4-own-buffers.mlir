module attributes {ftm.stage = "own-buffers"} {
  func.func @main(%arg0: tensor<4x16x12x12xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x3x3xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 216, 9>} : (tensor<16x24x3x3xf32>) -> tensor<3x3x16x24xf32>
    %1 = tensor.empty() : tensor<3x3x16x24xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x24xf32>) outs(%1 : tensor<3x3x16x24xf32>) -> tensor<3x3x16x24xf32>
    %3 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<4x16x12x12xf32>) -> tensor<4x16x13x13xf32>
    %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x12xf32>
    %5 = "ftm.view"(%2) {offset = 1536 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x1xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<4x24x12x12xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %9 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%4, %5 : tensor<4x16x12x12xf32>, tensor<24x16x1x1xf32>) outs(%8 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %10 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x13xf32>
    %11 = "ftm.view"(%2) {offset = 1920 : i64, strides = array<i64: 1, 24, 0, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x2xf32>
    %12 = tensor.empty() : tensor<4x24x12x12xf32>
    %13 = linalg.fill ins(%6 : f32) outs(%12 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %14 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%10, %11 : tensor<4x16x12x13xf32>, tensor<24x16x1x2xf32>) outs(%13 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %15 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %16 = "ftm.update"(%15, %9) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %17 = "ftm.update"(%16, %14) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %18 = "ftm.view"(%17) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
    %19 = tensor.empty() : tensor<4x24x12x12x2xf32>
    %20 = linalg.copy ins(%18 : tensor<4x24x12x12x2xf32>) outs(%19 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
    %21 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x13x12xf32>
    %22 = "ftm.view"(%2) {offset = 2688 : i64, strides = array<i64: 1, 24, -2304, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x1xf32>
    %23 = tensor.empty() : tensor<4x24x12x12xf32>
    %24 = linalg.fill ins(%6 : f32) outs(%23 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %25 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%21, %22 : tensor<4x16x13x12xf32>, tensor<24x16x2x1xf32>) outs(%24 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %26 = "ftm.view"(%2) {offset = 3072 : i64, strides = array<i64: 1, 24, -2304, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x2xf32>
    %27 = tensor.empty() : tensor<4x24x12x12xf32>
    %28 = linalg.fill ins(%6 : f32) outs(%27 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %29 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %26 : tensor<4x16x13x13xf32>, tensor<24x16x2x2xf32>) outs(%28 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %30 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %31 = "ftm.update"(%30, %25) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %32 = "ftm.update"(%31, %29) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %33 = "ftm.view"(%32) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
    %34 = tensor.empty() : tensor<4x24x12x12x2xf32>
    %35 = linalg.copy ins(%33 : tensor<4x24x12x12x2xf32>) outs(%34 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
    %36 = tensor.empty() : tensor<4x24x24x24xf32>
    %37 = "ftm.update"(%36, %20) {offset = 0 : i64, strides = array<i64: 13824, 576, 48, 2, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    %38 = "ftm.update"(%37, %35) {offset = 24 : i64, strides = array<i64: 13824, 576, 48, 2, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    return %38 : tensor<4x24x24x24xf32>
  }
}
