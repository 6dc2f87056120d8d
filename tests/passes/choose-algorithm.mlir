// RUN: ftm-opt --choose-algorithm --machine m7032 --cores 8 %s | filecheck %s
// RUN: ftm-opt --choose-algorithm --machine host %s | filecheck %s --check-prefix=HOST
// RUN: ftm-opt --choose-algorithm --tune conv-transpose=phases --machine m7032 --cores 8 %s | filecheck %s --check-prefix=HOST

// A machine whose DMA overlaps compute multiplies the gradient of a convolution's input at once, with col2im on chip. The expansion,
// four convolutions that are interleaved, goes. Other machines, and users who want so, keep it instead.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.conv_2d
// CHECK: %[[FOLDED:[0-9]+]] = "ftm.conv_transpose"(%arg0, %arg2) {dilation = "1,1", padding = "1,1", stride = "2,2"}
// CHECK-NEXT: return %[[FOLDED]]

// HOST-LABEL: func.func @main
// HOST-COUNT-4: linalg.conv_2d_nchw_fchw
// HOST: %[[ALL:[0-9]+]] = "ftm.update"(%{{.*}}, %{{.*}}) {offset = 28
// HOST-NOT: ftm.conv_transpose
// HOST: return %[[ALL]]

module attributes {ftm.stage = "x"} {
  func.func @main(%arg0: tensor<16x128x14x14xf32>, %arg1: tensor<16x64x28x28xf32>, %arg2: tensor<128x64x3x3xf32>) -> tensor<16x64x28x28xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 576, 9>} : (tensor<128x64x3x3xf32>) -> tensor<3x3x128x64xf32>
    %1 = tensor.empty() : tensor<3x3x128x64xf32>
    %2 = linalg.copy ins(%0 : tensor<3x3x128x64xf32>) outs(%1 : tensor<3x3x128x64xf32>) -> tensor<3x3x128x64xf32>
    %3 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<16x128x14x14xf32>) -> tensor<16x128x15x15xf32>
    %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 28800, 225, 15, 1>} : (tensor<16x128x15x15xf32>) -> tensor<16x128x14x14xf32>
    %5 = "ftm.view"(%2) {offset = 32768 : i64, strides = array<i64: 1, 64, 0, 0>} : (tensor<3x3x128x64xf32>) -> tensor<64x128x1x1xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<16x64x14x14xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %9 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%4, %5 : tensor<16x128x14x14xf32>, tensor<64x128x1x1xf32>) outs(%8 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %10 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 28800, 225, 15, 1>} : (tensor<16x128x15x15xf32>) -> tensor<16x128x14x15xf32>
    %11 = "ftm.view"(%2) {offset = 40960 : i64, strides = array<i64: 1, 64, 0, -16384>} : (tensor<3x3x128x64xf32>) -> tensor<64x128x1x2xf32>
    %12 = tensor.empty() : tensor<16x64x14x14xf32>
    %13 = linalg.fill ins(%6 : f32) outs(%12 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %14 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%10, %11 : tensor<16x128x14x15xf32>, tensor<64x128x1x2xf32>) outs(%13 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %15 = tensor.empty() : tensor<2x16x64x14x14xf32>
    %16 = "ftm.update"(%15, %9) {offset = 0 : i64, strides = array<i64: 12544, 196, 14, 1>} : (tensor<2x16x64x14x14xf32>, tensor<16x64x14x14xf32>) -> tensor<2x16x64x14x14xf32>
    %17 = "ftm.update"(%16, %14) {offset = 200704 : i64, strides = array<i64: 12544, 196, 14, 1>, joined} : (tensor<2x16x64x14x14xf32>, tensor<16x64x14x14xf32>) -> tensor<2x16x64x14x14xf32>
    %18 = "ftm.view"(%17) {offset = 0 : i64, strides = array<i64: 12544, 196, 14, 1, 200704>} : (tensor<2x16x64x14x14xf32>) -> tensor<16x64x14x14x2xf32>
    %19 = tensor.empty() : tensor<16x64x14x14x2xf32>
    %20 = linalg.copy ins(%18 : tensor<16x64x14x14x2xf32>) outs(%19 : tensor<16x64x14x14x2xf32>) -> tensor<16x64x14x14x2xf32>
    %21 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 28800, 225, 15, 1>} : (tensor<16x128x15x15xf32>) -> tensor<16x128x15x14xf32>
    %22 = "ftm.view"(%2) {offset = 57344 : i64, strides = array<i64: 1, 64, -49152, 0>} : (tensor<3x3x128x64xf32>) -> tensor<64x128x2x1xf32>
    %23 = tensor.empty() : tensor<16x64x14x14xf32>
    %24 = linalg.fill ins(%6 : f32) outs(%23 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %25 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%21, %22 : tensor<16x128x15x14xf32>, tensor<64x128x2x1xf32>) outs(%24 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %26 = "ftm.view"(%2) {offset = 65536 : i64, strides = array<i64: 1, 64, -49152, -16384>} : (tensor<3x3x128x64xf32>) -> tensor<64x128x2x2xf32>
    %27 = tensor.empty() : tensor<16x64x14x14xf32>
    %28 = linalg.fill ins(%6 : f32) outs(%27 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %29 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %26 : tensor<16x128x15x15xf32>, tensor<64x128x2x2xf32>) outs(%28 : tensor<16x64x14x14xf32>) -> tensor<16x64x14x14xf32>
    %30 = tensor.empty() : tensor<2x16x64x14x14xf32>
    %31 = "ftm.update"(%30, %25) {offset = 0 : i64, strides = array<i64: 12544, 196, 14, 1>} : (tensor<2x16x64x14x14xf32>, tensor<16x64x14x14xf32>) -> tensor<2x16x64x14x14xf32>
    %32 = "ftm.update"(%31, %29) {offset = 200704 : i64, strides = array<i64: 12544, 196, 14, 1>, joined} : (tensor<2x16x64x14x14xf32>, tensor<16x64x14x14xf32>) -> tensor<2x16x64x14x14xf32>
    %33 = "ftm.view"(%32) {offset = 0 : i64, strides = array<i64: 12544, 196, 14, 1, 200704>} : (tensor<2x16x64x14x14xf32>) -> tensor<16x64x14x14x2xf32>
    %34 = tensor.empty() : tensor<16x64x14x14x2xf32>
    %35 = linalg.copy ins(%33 : tensor<16x64x14x14x2xf32>) outs(%34 : tensor<16x64x14x14x2xf32>) -> tensor<16x64x14x14x2xf32>
    %36 = tensor.empty() : tensor<16x64x28x28xf32>
    %37 = "ftm.update"(%36, %20) {offset = 0 : i64, strides = array<i64: 50176, 784, 56, 2, 1>} : (tensor<16x64x28x28xf32>, tensor<16x64x14x14x2xf32>) -> tensor<16x64x28x28xf32>
    %38 = "ftm.update"(%37, %35) {offset = 28 : i64, strides = array<i64: 50176, 784, 56, 2, 1>, joined} : (tensor<16x64x28x28xf32>, tensor<16x64x14x14x2xf32>) -> tensor<16x64x28x28xf32>
    %39 = "ftm.conv_transpose"(%arg0, %arg2, %38) {stride = "2,2", dilation = "1,1", padding = "1,1"} : (tensor<16x128x14x14xf32>, tensor<128x64x3x3xf32>, tensor<16x64x28x28xf32>) -> tensor<16x64x28x28xf32>
    return %39 : tensor<16x64x28x28xf32>
  }
}

