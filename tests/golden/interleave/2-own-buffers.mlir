module attributes {ftm.stage = "own-buffers"} {
  func.func @main(%arg0: tensor<4x16x12x12xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x3x3xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 216, 9>} : (tensor<16x24x3x3xf32>) -> tensor<3x3x16x24xf32>
    %1 = tensor.empty() : tensor<3x3x16x24xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x24xf32>) outs(%1 : tensor<3x3x16x24xf32>) -> tensor<3x3x16x24xf32>
    %3 = arith.constant 0.0 : f32
    %4 = tensor.empty() : tensor<4x16x13x13xf32>
    %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<4x16x13x13xf32>) -> tensor<4x16x13x13xf32>
    %6 = tensor.empty() : tensor<4x16x13x13xf32>
    %7 = linalg.copy ins(%5 : tensor<4x16x13x13xf32>) outs(%6 : tensor<4x16x13x13xf32>) -> tensor<4x16x13x13xf32>
    %8 = tensor.empty() : tensor<4x16x12x12xf32>
    %9 = linalg.copy ins(%arg0 : tensor<4x16x12x12xf32>) outs(%8 : tensor<4x16x12x12xf32>) -> tensor<4x16x12x12xf32>
    %10 = "ftm.update"(%7, %9) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>, tensor<4x16x12x12xf32>) -> tensor<4x16x13x13xf32>
    %11 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x12xf32>
    %12 = "ftm.view"(%2) {offset = 1536 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x1xf32>
    %13 = tensor.empty() : tensor<4x24x12x12xf32>
    %14 = linalg.fill ins(%3 : f32) outs(%13 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %15 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%11, %12 : tensor<4x16x12x12xf32>, tensor<24x16x1x1xf32>) outs(%14 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %16 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x13xf32>
    %17 = "ftm.view"(%2) {offset = 1920 : i64, strides = array<i64: 1, 24, 0, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x2xf32>
    %18 = tensor.empty() : tensor<4x24x12x12xf32>
    %19 = linalg.fill ins(%3 : f32) outs(%18 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %20 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%16, %17 : tensor<4x16x12x13xf32>, tensor<24x16x1x2xf32>) outs(%19 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %21 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %22 = "ftm.update"(%21, %15) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %23 = "ftm.update"(%22, %20) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %24 = "ftm.view"(%23) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
    %25 = tensor.empty() : tensor<4x24x12x12x2xf32>
    %26 = linalg.copy ins(%24 : tensor<4x24x12x12x2xf32>) outs(%25 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
    %27 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x13x12xf32>
    %28 = "ftm.view"(%2) {offset = 2688 : i64, strides = array<i64: 1, 24, -2304, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x1xf32>
    %29 = tensor.empty() : tensor<4x24x12x12xf32>
    %30 = linalg.fill ins(%3 : f32) outs(%29 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %31 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%27, %28 : tensor<4x16x13x12xf32>, tensor<24x16x2x1xf32>) outs(%30 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %32 = "ftm.view"(%2) {offset = 3072 : i64, strides = array<i64: 1, 24, -2304, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x2xf32>
    %33 = tensor.empty() : tensor<4x24x12x12xf32>
    %34 = linalg.fill ins(%3 : f32) outs(%33 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %35 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%10, %32 : tensor<4x16x13x13xf32>, tensor<24x16x2x2xf32>) outs(%34 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
    %36 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %37 = "ftm.update"(%36, %31) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %38 = "ftm.update"(%37, %35) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %39 = "ftm.view"(%38) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
    %40 = tensor.empty() : tensor<4x24x12x12x2xf32>
    %41 = linalg.copy ins(%39 : tensor<4x24x12x12x2xf32>) outs(%40 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
    %42 = tensor.empty() : tensor<4x24x24x24xf32>
    %43 = "ftm.update"(%42, %26) {offset = 0 : i64, strides = array<i64: 13824, 576, 48, 2, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    %44 = "ftm.update"(%43, %41) {offset = 24 : i64, strides = array<i64: 13824, 576, 48, 2, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    return %44 : tensor<4x24x24x24xf32>
  }
}
