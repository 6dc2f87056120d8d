module attributes {ftm.stage = "join-attention"} {
  func.func @main(%arg0: tensor<4x16x12x12xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x3x3xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 216, 9>} : (tensor<16x24x3x3xf32>) -> tensor<3x3x16x24xf32>
      %1 = tensor.empty() : tensor<3x3x16x24xf32>
      %2 = linalg.copy ins(%0 : tensor<3x3x16x24xf32>) outs(%1 : tensor<3x3x16x24xf32>) -> tensor<3x3x16x24xf32>
      "ftm.yield"(%2) : (tensor<3x3x16x24xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<3x3x16x24xf32>)
    %4 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 0, 0>} : (tensor<4x16x12x12xf32>) -> tensor<4x16x13x13xf32>
    %11 = "ftm.kernel"() ({
      %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x12xf32>
      %6 = "ftm.view"(%3) {offset = 1536 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x1xf32>
      %7 = arith.constant 0.0 : f32
      %8 = tensor.empty() : tensor<4x24x12x12xf32>
      %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %10 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%5, %6 : tensor<4x16x12x12xf32>, tensor<24x16x1x1xf32>) outs(%9 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%10) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x24x12x12xf32>)
    %18 = "ftm.kernel"() ({
      %12 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x13xf32>
      %13 = "ftm.view"(%3) {offset = 1920 : i64, strides = array<i64: 1, 24, 0, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x2xf32>
      %14 = arith.constant 0.0 : f32
      %15 = tensor.empty() : tensor<4x24x12x12xf32>
      %16 = linalg.fill ins(%14 : f32) outs(%15 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %17 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%12, %13 : tensor<4x16x12x13xf32>, tensor<24x16x1x2xf32>) outs(%16 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%17) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x24x12x12xf32>)
    %19 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %20 = "ftm.update"(%19, %11) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %21 = "ftm.update"(%20, %18) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %25 = "ftm.kernel"() ({
      %22 = "ftm.view"(%21) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
      %23 = tensor.empty() : tensor<4x24x12x12x2xf32>
      %24 = linalg.copy ins(%22 : tensor<4x24x12x12x2xf32>) outs(%23 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
      "ftm.yield"(%24) : (tensor<4x24x12x12x2xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<4x24x12x12x2xf32>)
    %32 = "ftm.kernel"() ({
      %26 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x13x12xf32>
      %27 = "ftm.view"(%3) {offset = 2688 : i64, strides = array<i64: 1, 24, -2304, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x1xf32>
      %28 = arith.constant 0.0 : f32
      %29 = tensor.empty() : tensor<4x24x12x12xf32>
      %30 = linalg.fill ins(%28 : f32) outs(%29 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %31 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%26, %27 : tensor<4x16x13x12xf32>, tensor<24x16x2x1xf32>) outs(%30 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%31) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x24x12x12xf32>)
    %38 = "ftm.kernel"() ({
      %33 = "ftm.view"(%3) {offset = 3072 : i64, strides = array<i64: 1, 24, -2304, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x2xf32>
      %34 = arith.constant 0.0 : f32
      %35 = tensor.empty() : tensor<4x24x12x12xf32>
      %36 = linalg.fill ins(%34 : f32) outs(%35 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %37 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%4, %33 : tensor<4x16x13x13xf32>, tensor<24x16x2x2xf32>) outs(%36 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%37) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<4x24x12x12xf32>)
    %39 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %40 = "ftm.update"(%39, %32) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %41 = "ftm.update"(%40, %38) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %45 = "ftm.kernel"() ({
      %42 = "ftm.view"(%41) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
      %43 = tensor.empty() : tensor<4x24x12x12x2xf32>
      %44 = linalg.copy ins(%42 : tensor<4x24x12x12x2xf32>) outs(%43 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
      "ftm.yield"(%44) : (tensor<4x24x12x12x2xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<4x24x12x12x2xf32>)
    %46 = tensor.empty() : tensor<4x24x24x24xf32>
    %47 = "ftm.update"(%46, %25) {offset = 0 : i64, strides = array<i64: 13824, 576, 48, 2, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    %48 = "ftm.update"(%47, %45) {offset = 24 : i64, strides = array<i64: 13824, 576, 48, 2, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    return %48 : tensor<4x24x24x24xf32>
  }
}
