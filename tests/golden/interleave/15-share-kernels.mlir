module attributes {ftm.stage = "share-kernels", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [4, 16, 8, 8]], [\"b1\", \"f32\", [4, 24, 24, 24]], [\"b2\", \"f32\", [16, 24, 5, 5]]], \"scalars\": [], \"outputs\": [[\"o0\", \"f32\", [4, 24, 24, 24], \"\"]], \"consts\": [], \"arena\": [[\"t0\", 0, \"f32\", [5, 5, 16, 24]], [\"t1\", 38400, \"f32\", [3, 4, 24, 8, 8]], [\"t2\", 38400, \"f32\", [3, 4, 24, 8, 8]], [\"t3\", 38400, \"f32\", [3, 4, 24, 8, 8]]], \"windows\": [], \"arena_bytes\": 112128}"} {
  func.func @main(%arg0: tensor<4x16x8x8xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x5x5xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 5, 1, 600, 25>} : (tensor<16x24x5x5xf32>) -> tensor<5x5x16x24xf32>
      %1 = tensor.empty() : tensor<5x5x16x24xf32>
      %2 = linalg.copy ins(%0 : tensor<5x5x16x24xf32>) outs(%1 : tensor<5x5x16x24xf32>) -> tensor<5x5x16x24xf32>
      "ftm.yield"(%2) : (tensor<5x5x16x24xf32>) -> ()
    }) {kind = "turn", one_core, inputs = ["b2"], outputs = ["t0"], call = "kernel_0, b2[0], t0[0]"} : () -> (tensor<5x5x16x24xf32>)
    %4 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<4x16x8x8xf32>) -> tensor<4x16x10x10xf32>
    %11 = "ftm.kernel"() ({
      %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
      %6 = "ftm.view"(%3) {offset = 9216 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
      %7 = arith.constant 0.0 : f32
      %8 = tensor.empty() : tensor<4x24x8x8xf32>
      %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %10 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%5, %6 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%9 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%10) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t1"], call = "kernel_1, b0[0], t0[2304], t1[0]"} : () -> (tensor<4x24x8x8xf32>)
    %18 = "ftm.kernel"() ({
      %12 = "ftm.view"(%4) {offset = 1 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x8xf32>
      %13 = "ftm.view"(%3) {offset = 8448 : i64, strides = array<i64: 1, 24, -5760, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x1xf32>
      %14 = arith.constant 0.0 : f32
      %15 = tensor.empty() : tensor<4x24x8x8xf32>
      %16 = linalg.fill ins(%14 : f32) outs(%15 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %17 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%12, %13 : tensor<4x16x9x8xf32>, tensor<24x16x2x1xf32>) outs(%16 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%17) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t1"], call = "kernel_2, b0[0], t0[2688], t1[6144]"} : () -> (tensor<4x24x8x8xf32>)
    %25 = "ftm.kernel"() ({
      %19 = "ftm.view"(%4) {offset = 1 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
      %20 = "ftm.view"(%3) {offset = 8832 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
      %21 = arith.constant 0.0 : f32
      %22 = tensor.empty() : tensor<4x24x8x8xf32>
      %23 = linalg.fill ins(%21 : f32) outs(%22 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %24 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%19, %20 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%23 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%24) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t1"], call = "kernel_3, b0[0], t0[1920], t1[12288]"} : () -> (tensor<4x24x8x8xf32>)
    %26 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %27 = "ftm.update"(%26, %11) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %28 = "ftm.update"(%27, %18) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %29 = "ftm.update"(%28, %25) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %33 = "ftm.kernel"() ({
      %30 = "ftm.view"(%29) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
      %31 = tensor.empty() : tensor<4x24x8x8x3xf32>
      %32 = linalg.copy ins(%30 : tensor<4x24x8x8x3xf32>) outs(%31 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
      "ftm.yield"(%32) : (tensor<4x24x8x8x3xf32>) -> ()
    }) {kind = "turn", one_core, barrier, inputs = ["t1"], outputs = ["o0"], call = "kernel_4, t1[0], o0[0]"} : () -> (tensor<4x24x8x8x3xf32>)
    %40 = "ftm.kernel"() ({
      %34 = "ftm.view"(%4) {offset = 10 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x9xf32>
      %35 = "ftm.view"(%3) {offset = 5376 : i64, strides = array<i64: 1, 24, 0, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x2xf32>
      %36 = arith.constant 0.0 : f32
      %37 = tensor.empty() : tensor<4x24x8x8xf32>
      %38 = linalg.fill ins(%36 : f32) outs(%37 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %39 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%34, %35 : tensor<4x16x8x9xf32>, tensor<24x16x1x2xf32>) outs(%38 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%39) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t2"], call = "kernel_5, b0[0], t0[4224], t2[0]"} : () -> (tensor<4x24x8x8xf32>)
    %47 = "ftm.kernel"() ({
      %41 = "ftm.view"(%4) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x8xf32>
      %42 = "ftm.view"(%3) {offset = 4608 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x1xf32>
      %43 = arith.constant 0.0 : f32
      %44 = tensor.empty() : tensor<4x24x8x8xf32>
      %45 = linalg.fill ins(%43 : f32) outs(%44 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %46 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%41, %42 : tensor<4x16x8x8xf32>, tensor<24x16x1x1xf32>) outs(%45 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%46) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t2"], call = "kernel_6, b0[0], t0[4608], t2[6144]"} : () -> (tensor<4x24x8x8xf32>)
    %54 = "ftm.kernel"() ({
      %48 = "ftm.view"(%4) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x9xf32>
      %49 = "ftm.view"(%3) {offset = 4992 : i64, strides = array<i64: 1, 24, 0, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x2xf32>
      %50 = arith.constant 0.0 : f32
      %51 = tensor.empty() : tensor<4x24x8x8xf32>
      %52 = linalg.fill ins(%50 : f32) outs(%51 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %53 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%48, %49 : tensor<4x16x8x9xf32>, tensor<24x16x1x2xf32>) outs(%52 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%53) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t2"], call = "kernel_7, b0[0], t0[3840], t2[12288]"} : () -> (tensor<4x24x8x8xf32>)
    %55 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %56 = "ftm.update"(%55, %40) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %57 = "ftm.update"(%56, %47) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %58 = "ftm.update"(%57, %54) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %62 = "ftm.kernel"() ({
      %59 = "ftm.view"(%58) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
      %60 = tensor.empty() : tensor<4x24x8x8x3xf32>
      %61 = linalg.copy ins(%59 : tensor<4x24x8x8x3xf32>) outs(%60 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
      "ftm.yield"(%61) : (tensor<4x24x8x8x3xf32>) -> ()
    }) {kind = "turn", one_core, barrier, inputs = ["t2"], outputs = ["o0"], call = "kernel_4, t2[0], o0[24]"} : () -> (tensor<4x24x8x8x3xf32>)
    %69 = "ftm.kernel"() ({
      %63 = "ftm.view"(%4) {offset = 10 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
      %64 = "ftm.view"(%3) {offset = 7296 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
      %65 = arith.constant 0.0 : f32
      %66 = tensor.empty() : tensor<4x24x8x8xf32>
      %67 = linalg.fill ins(%65 : f32) outs(%66 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %68 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%63, %64 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%67 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%68) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t3"], call = "kernel_8, b0[0], t0[384], t3[0]"} : () -> (tensor<4x24x8x8xf32>)
    %76 = "ftm.kernel"() ({
      %70 = "ftm.view"(%4) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x8xf32>
      %71 = "ftm.view"(%3) {offset = 6528 : i64, strides = array<i64: 1, 24, -5760, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x1xf32>
      %72 = arith.constant 0.0 : f32
      %73 = tensor.empty() : tensor<4x24x8x8xf32>
      %74 = linalg.fill ins(%72 : f32) outs(%73 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %75 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%70, %71 : tensor<4x16x9x8xf32>, tensor<24x16x2x1xf32>) outs(%74 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%75) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t3"], call = "kernel_9, b0[0], t0[768], t3[6144]"} : () -> (tensor<4x24x8x8xf32>)
    %83 = "ftm.kernel"() ({
      %77 = "ftm.view"(%4) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
      %78 = "ftm.view"(%3) {offset = 6912 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
      %79 = arith.constant 0.0 : f32
      %80 = tensor.empty() : tensor<4x24x8x8xf32>
      %81 = linalg.fill ins(%79 : f32) outs(%80 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      %82 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%77, %78 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%81 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
      "ftm.yield"(%82) : (tensor<4x24x8x8xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["b0", "t0"], outputs = ["t3"], call = "kernel_10, b0[0], t0[0], t3[12288]"} : () -> (tensor<4x24x8x8xf32>)
    %84 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %85 = "ftm.update"(%84, %69) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %86 = "ftm.update"(%85, %76) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %87 = "ftm.update"(%86, %83) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %91 = "ftm.kernel"() ({
      %88 = "ftm.view"(%87) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
      %89 = tensor.empty() : tensor<4x24x8x8x3xf32>
      %90 = linalg.copy ins(%88 : tensor<4x24x8x8x3xf32>) outs(%89 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
      "ftm.yield"(%90) : (tensor<4x24x8x8x3xf32>) -> ()
    }) {kind = "turn", one_core, barrier, inputs = ["t3"], outputs = ["o0"], call = "kernel_4, t3[0], o0[48]"} : () -> (tensor<4x24x8x8x3xf32>)
    %92 = tensor.empty() : tensor<4x24x24x24xf32>
    %93 = "ftm.update"(%92, %33) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %94 = "ftm.update"(%93, %62) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %95 = "ftm.update"(%94, %91) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %95 : tensor<4x24x24x24xf32>
  }
}
