module attributes {ftm.stage = "rematerialize-pool-inputs"} {
  func.func @main(%arg0: tensor<2x16x14x14xf32>, %arg1: tensor<2x32x28x28xf32>, %arg2: tensor<16x32x3x3xf32>) -> tensor<2x32x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 288, 9>} : (tensor<16x32x3x3xf32>) -> tensor<3x3x16x32xf32>
    %1 = tensor.empty() : tensor<3x3x16x32xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x16x32xf32>) outs(%1 : tensor<3x3x16x32xf32>) -> tensor<3x3x16x32xf32>
    %3 = arith.constant 0.0 : f32
    %4 = tensor.empty() : tensor<2x16x15x15xf32>
    %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<2x16x15x15xf32>) -> tensor<2x16x15x15xf32>
    %6 = "ftm.update"(%5, %arg0) {offset = 0 : i64, strides = array<i64: 3600, 225, 15, 1>} : (tensor<2x16x15x15xf32>, tensor<2x16x14x14xf32>) -> tensor<2x16x15x15xf32>
    %7 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x16x14x14xf32>
    %8 = "ftm.view"(%2) {offset = 2048 : i64, strides = array<i64: 1, 32, 0, 0>} : (tensor<3x3x16x32xf32>) -> tensor<32x16x1x1xf32>
    %9 = tensor.empty() : tensor<2x32x14x14xf32>
    %10 = linalg.fill ins(%3 : f32) outs(%9 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %11 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%7, %8 : tensor<2x16x14x14xf32>, tensor<32x16x1x1xf32>) outs(%10 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %12 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x16x14x15xf32>
    %13 = "ftm.view"(%2) {offset = 2560 : i64, strides = array<i64: 1, 32, 0, -1024>} : (tensor<3x3x16x32xf32>) -> tensor<32x16x1x2xf32>
    %14 = tensor.empty() : tensor<2x32x14x14xf32>
    %15 = linalg.fill ins(%3 : f32) outs(%14 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %16 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%12, %13 : tensor<2x16x14x15xf32>, tensor<32x16x1x2xf32>) outs(%15 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %17 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %18 = "ftm.update"(%17, %11) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %19 = "ftm.update"(%18, %16) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %20 = "ftm.view"(%19) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %21 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %22 = linalg.copy ins(%20 : tensor<2x32x14x14x2xf32>) outs(%21 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %23 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 3600, 225, 15, 1>} : (tensor<2x16x15x15xf32>) -> tensor<2x16x15x14xf32>
    %24 = "ftm.view"(%2) {offset = 3584 : i64, strides = array<i64: 1, 32, -3072, 0>} : (tensor<3x3x16x32xf32>) -> tensor<32x16x2x1xf32>
    %25 = tensor.empty() : tensor<2x32x14x14xf32>
    %26 = linalg.fill ins(%3 : f32) outs(%25 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %27 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%23, %24 : tensor<2x16x15x14xf32>, tensor<32x16x2x1xf32>) outs(%26 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %28 = "ftm.view"(%2) {offset = 4096 : i64, strides = array<i64: 1, 32, -3072, -1024>} : (tensor<3x3x16x32xf32>) -> tensor<32x16x2x2xf32>
    %29 = tensor.empty() : tensor<2x32x14x14xf32>
    %30 = linalg.fill ins(%3 : f32) outs(%29 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %31 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%6, %28 : tensor<2x16x15x15xf32>, tensor<32x16x2x2xf32>) outs(%30 : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
    %32 = tensor.empty() : tensor<2x2x32x14x14xf32>
    %33 = "ftm.update"(%32, %27) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1>} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %34 = "ftm.update"(%33, %31) {offset = 12544 : i64, strides = array<i64: 6272, 196, 14, 1>, joined} : (tensor<2x2x32x14x14xf32>, tensor<2x32x14x14xf32>) -> tensor<2x2x32x14x14xf32>
    %35 = "ftm.view"(%34) {offset = 0 : i64, strides = array<i64: 6272, 196, 14, 1, 12544>} : (tensor<2x2x32x14x14xf32>) -> tensor<2x32x14x14x2xf32>
    %36 = tensor.empty() : tensor<2x32x14x14x2xf32>
    %37 = linalg.copy ins(%35 : tensor<2x32x14x14x2xf32>) outs(%36 : tensor<2x32x14x14x2xf32>) -> tensor<2x32x14x14x2xf32>
    %38 = tensor.empty() : tensor<2x32x28x28xf32>
    %39 = "ftm.update"(%38, %22) {offset = 0 : i64, strides = array<i64: 25088, 784, 56, 2, 1>} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    %40 = "ftm.update"(%39, %37) {offset = 28 : i64, strides = array<i64: 25088, 784, 56, 2, 1>, joined} : (tensor<2x32x28x28xf32>, tensor<2x32x14x14x2xf32>) -> tensor<2x32x28x28xf32>
    return %40 : tensor<2x32x28x28xf32>
  }
}
