module attributes {ftm.stage = "share-kernels", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [4, 16, 12, 12]], [\"b1\", \"f32\", [4, 24, 24, 24]], [\"b2\", \"f32\", [16, 24, 3, 3]]], \"scalars\": [], \"outputs\": [[\"o0\", \"f32\", [4, 24, 24, 24], \"\"]], \"consts\": [], \"arena\": [[\"t0\", 0, \"f32\", [3, 3, 16, 24]], [\"t1\", 13824, \"f32\", [4, 16, 13, 13]], [\"t2\", 57088, \"f32\", [2, 4, 24, 12, 12]], [\"t3\", 57088, \"f32\", [2, 4, 24, 12, 12]]], \"windows\": [], \"arena_bytes\": 167680}"} {
  func.func @main(%arg0: tensor<4x16x12x12xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x3x3xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 3, 1, 216, 9>} : (tensor<16x24x3x3xf32>) -> tensor<3x3x16x24xf32>
      %1 = tensor.empty() : tensor<3x3x16x24xf32>
      %2 = linalg.copy ins(%0 : tensor<3x3x16x24xf32>) outs(%1 : tensor<3x3x16x24xf32>) -> tensor<3x3x16x24xf32>
      "ftm.yield"(%2) : (tensor<3x3x16x24xf32>) -> ()
    }) {kind = "nest", one_core, inputs = ["b2"], outputs = ["t0"], call = "kernel_0, b2[0], t0[0]"} : () -> (tensor<3x3x16x24xf32>)
    %9 = "ftm.kernel"() ({
      %4 = arith.constant 0.0 : f32
      %5 = tensor.empty() : tensor<4x16x13x13xf32>
      %6 = linalg.fill ins(%4 : f32) outs(%5 : tensor<4x16x13x13xf32>) -> tensor<4x16x13x13xf32>
      %7 = tensor.empty() : tensor<4x16x13x13xf32>
      %8 = linalg.copy ins(%6 : tensor<4x16x13x13xf32>) outs(%7 : tensor<4x16x13x13xf32>) -> tensor<4x16x13x13xf32>
      "ftm.yield"(%8) : (tensor<4x16x13x13xf32>) -> ()
    }) {kind = "nest", one_core, outputs = ["t1"], call = "kernel_1, t1[0]"} : () -> (tensor<4x16x13x13xf32>)
    %12 = "ftm.kernel"() ({
      %10 = tensor.empty() : tensor<4x16x12x12xf32>
      %11 = linalg.copy ins(%arg0 : tensor<4x16x12x12xf32>) outs(%10 : tensor<4x16x12x12xf32>) -> tensor<4x16x12x12xf32>
      "ftm.yield"(%11) : (tensor<4x16x12x12xf32>) -> ()
    }) {kind = "nest", one_core, inputs = ["b0", "t1"], outputs = ["t1"], call = "kernel_2, b0[0], t1[0]"} : () -> (tensor<4x16x12x12xf32>)
    %13 = "ftm.update"(%9, %12) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>, tensor<4x16x12x12xf32>) -> tensor<4x16x13x13xf32>
    %20 = "ftm.kernel"() ({
      %14 = "ftm.view"(%13) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x12xf32>
      %15 = "ftm.view"(%3) {offset = 1536 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x1xf32>
      %16 = arith.constant 0.0 : f32
      %17 = tensor.empty() : tensor<4x24x12x12xf32>
      %18 = linalg.fill ins(%16 : f32) outs(%17 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %19 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%14, %15 : tensor<4x16x12x12xf32>, tensor<24x16x1x1xf32>) outs(%18 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%19) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t1", "t0"], outputs = ["t2"], call = "kernel_3, t1[0], t0[1536], t2[0]"} : () -> (tensor<4x24x12x12xf32>)
    %27 = "ftm.kernel"() ({
      %21 = "ftm.view"(%13) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x12x13xf32>
      %22 = "ftm.view"(%3) {offset = 1920 : i64, strides = array<i64: 1, 24, 0, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x1x2xf32>
      %23 = arith.constant 0.0 : f32
      %24 = tensor.empty() : tensor<4x24x12x12xf32>
      %25 = linalg.fill ins(%23 : f32) outs(%24 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %26 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%21, %22 : tensor<4x16x12x13xf32>, tensor<24x16x1x2xf32>) outs(%25 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%26) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t1", "t0"], outputs = ["t2"], call = "kernel_4, t1[0], t0[1152], t2[13824]"} : () -> (tensor<4x24x12x12xf32>)
    %28 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %29 = "ftm.update"(%28, %20) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %30 = "ftm.update"(%29, %27) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %34 = "ftm.kernel"() ({
      %31 = "ftm.view"(%30) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
      %32 = tensor.empty() : tensor<4x24x12x12x2xf32>
      %33 = linalg.copy ins(%31 : tensor<4x24x12x12x2xf32>) outs(%32 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
      "ftm.yield"(%33) : (tensor<4x24x12x12x2xf32>) -> ()
    }) {kind = "turn", barrier, inputs = ["t2"], outputs = ["o0"], call = "kernel_5, t2[0], o0[0]"} : () -> (tensor<4x24x12x12x2xf32>)
    %41 = "ftm.kernel"() ({
      %35 = "ftm.view"(%13) {offset = 0 : i64, strides = array<i64: 2704, 169, 13, 1>} : (tensor<4x16x13x13xf32>) -> tensor<4x16x13x12xf32>
      %36 = "ftm.view"(%3) {offset = 2688 : i64, strides = array<i64: 1, 24, -2304, 0>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x1xf32>
      %37 = arith.constant 0.0 : f32
      %38 = tensor.empty() : tensor<4x24x12x12xf32>
      %39 = linalg.fill ins(%37 : f32) outs(%38 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %40 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%35, %36 : tensor<4x16x13x12xf32>, tensor<24x16x2x1xf32>) outs(%39 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%40) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t1", "t0"], outputs = ["t3"], call = "kernel_6, t1[0], t0[384], t3[0]"} : () -> (tensor<4x24x12x12xf32>)
    %47 = "ftm.kernel"() ({
      %42 = "ftm.view"(%3) {offset = 3072 : i64, strides = array<i64: 1, 24, -2304, -768>} : (tensor<3x3x16x24xf32>) -> tensor<24x16x2x2xf32>
      %43 = arith.constant 0.0 : f32
      %44 = tensor.empty() : tensor<4x24x12x12xf32>
      %45 = linalg.fill ins(%43 : f32) outs(%44 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      %46 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%13, %42 : tensor<4x16x13x13xf32>, tensor<24x16x2x2xf32>) outs(%45 : tensor<4x24x12x12xf32>) -> tensor<4x24x12x12xf32>
      "ftm.yield"(%46) : (tensor<4x24x12x12xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t1", "t0"], outputs = ["t3"], call = "kernel_7, t1[0], t0[0], t3[13824]"} : () -> (tensor<4x24x12x12xf32>)
    %48 = tensor.empty() : tensor<2x4x24x12x12xf32>
    %49 = "ftm.update"(%48, %41) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1>} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %50 = "ftm.update"(%49, %47) {offset = 13824 : i64, strides = array<i64: 3456, 144, 12, 1>, joined} : (tensor<2x4x24x12x12xf32>, tensor<4x24x12x12xf32>) -> tensor<2x4x24x12x12xf32>
    %54 = "ftm.kernel"() ({
      %51 = "ftm.view"(%50) {offset = 0 : i64, strides = array<i64: 3456, 144, 12, 1, 13824>} : (tensor<2x4x24x12x12xf32>) -> tensor<4x24x12x12x2xf32>
      %52 = tensor.empty() : tensor<4x24x12x12x2xf32>
      %53 = linalg.copy ins(%51 : tensor<4x24x12x12x2xf32>) outs(%52 : tensor<4x24x12x12x2xf32>) -> tensor<4x24x12x12x2xf32>
      "ftm.yield"(%53) : (tensor<4x24x12x12x2xf32>) -> ()
    }) {kind = "turn", barrier, inputs = ["t3"], outputs = ["o0"], call = "kernel_5, t3[0], o0[24]"} : () -> (tensor<4x24x12x12x2xf32>)
    %55 = tensor.empty() : tensor<4x24x24x24xf32>
    %56 = "ftm.update"(%55, %34) {offset = 0 : i64, strides = array<i64: 13824, 576, 48, 2, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    %57 = "ftm.update"(%56, %54) {offset = 24 : i64, strides = array<i64: 13824, 576, 48, 2, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x12x12x2xf32>) -> tensor<4x24x24x24xf32>
    return %57 : tensor<4x24x24x24xf32>
  }
}
