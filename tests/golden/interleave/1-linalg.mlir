module {
  func.func @main(%arg0: tensor<4x16x8x8xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x5x5xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 5, 1, 600, 25>} : (tensor<16x24x5x5xf32>) -> tensor<5x5x16x24xf32>
    %1 = tensor.empty() : tensor<5x5x16x24xf32>
    %2 = linalg.copy ins(%0 : tensor<5x5x16x24xf32>) outs(%1 : tensor<5x5x16x24xf32>) -> tensor<5x5x16x24xf32>
    %3 = arith.constant 0.0 : f32
    %4 = tensor.empty() : tensor<4x16x10x10xf32>
    %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<4x16x10x10xf32>) -> tensor<4x16x10x10xf32>
    %6 = "ftm.update"(%5, %arg0) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>, tensor<4x16x8x8xf32>) -> tensor<4x16x10x10xf32>
    %7 = "ftm.view"(%6) {offset = 0 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %8 = "ftm.view"(%2) {offset = 9216 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %9 = tensor.empty() : tensor<4x24x8x8xf32>
    %10 = linalg.fill ins(%3 : f32) outs(%9 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %11 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%7, %8 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%10 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %12 = "ftm.view"(%6) {offset = 1 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x8xf32>
    %13 = "ftm.view"(%2) {offset = 8448 : i64, strides = array<i64: 1, 24, -5760, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x1xf32>
    %14 = tensor.empty() : tensor<4x24x8x8xf32>
    %15 = linalg.fill ins(%3 : f32) outs(%14 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %16 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%12, %13 : tensor<4x16x9x8xf32>, tensor<24x16x2x1xf32>) outs(%15 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %17 = "ftm.view"(%6) {offset = 1 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %18 = "ftm.view"(%2) {offset = 8832 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %19 = tensor.empty() : tensor<4x24x8x8xf32>
    %20 = linalg.fill ins(%3 : f32) outs(%19 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %21 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%17, %18 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%20 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %22 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %23 = "ftm.update"(%22, %11) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %24 = "ftm.update"(%23, %16) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %25 = "ftm.update"(%24, %21) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %26 = "ftm.view"(%25) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %27 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %28 = linalg.copy ins(%26 : tensor<4x24x8x8x3xf32>) outs(%27 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %29 = "ftm.view"(%6) {offset = 10 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x9xf32>
    %30 = "ftm.view"(%2) {offset = 5376 : i64, strides = array<i64: 1, 24, 0, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x2xf32>
    %31 = tensor.empty() : tensor<4x24x8x8xf32>
    %32 = linalg.fill ins(%3 : f32) outs(%31 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %33 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%29, %30 : tensor<4x16x8x9xf32>, tensor<24x16x1x2xf32>) outs(%32 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %34 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x8xf32>
    %35 = "ftm.view"(%2) {offset = 4608 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x1xf32>
    %36 = tensor.empty() : tensor<4x24x8x8xf32>
    %37 = linalg.fill ins(%3 : f32) outs(%36 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %38 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%34, %35 : tensor<4x16x8x8xf32>, tensor<24x16x1x1xf32>) outs(%37 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %39 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x9xf32>
    %40 = "ftm.view"(%2) {offset = 4992 : i64, strides = array<i64: 1, 24, 0, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x2xf32>
    %41 = tensor.empty() : tensor<4x24x8x8xf32>
    %42 = linalg.fill ins(%3 : f32) outs(%41 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %43 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%39, %40 : tensor<4x16x8x9xf32>, tensor<24x16x1x2xf32>) outs(%42 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %44 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %45 = "ftm.update"(%44, %33) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %46 = "ftm.update"(%45, %38) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %47 = "ftm.update"(%46, %43) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %48 = "ftm.view"(%47) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %49 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %50 = linalg.copy ins(%48 : tensor<4x24x8x8x3xf32>) outs(%49 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %51 = "ftm.view"(%6) {offset = 10 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %52 = "ftm.view"(%2) {offset = 7296 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %53 = tensor.empty() : tensor<4x24x8x8xf32>
    %54 = linalg.fill ins(%3 : f32) outs(%53 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %55 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%51, %52 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%54 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %56 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x8xf32>
    %57 = "ftm.view"(%2) {offset = 6528 : i64, strides = array<i64: 1, 24, -5760, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x1xf32>
    %58 = tensor.empty() : tensor<4x24x8x8xf32>
    %59 = linalg.fill ins(%3 : f32) outs(%58 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %60 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%56, %57 : tensor<4x16x9x8xf32>, tensor<24x16x2x1xf32>) outs(%59 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %61 = "ftm.view"(%6) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %62 = "ftm.view"(%2) {offset = 6912 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %63 = tensor.empty() : tensor<4x24x8x8xf32>
    %64 = linalg.fill ins(%3 : f32) outs(%63 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %65 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%61, %62 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%64 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %66 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %67 = "ftm.update"(%66, %55) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %68 = "ftm.update"(%67, %60) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %69 = "ftm.update"(%68, %65) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %70 = "ftm.view"(%69) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %71 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %72 = linalg.copy ins(%70 : tensor<4x24x8x8x3xf32>) outs(%71 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %73 = tensor.empty() : tensor<4x24x24x24xf32>
    %74 = "ftm.update"(%73, %28) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %75 = "ftm.update"(%74, %50) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %76 = "ftm.update"(%75, %72) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %76 : tensor<4x24x24x24xf32>
  }
}
