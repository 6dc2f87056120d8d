module attributes {ftm.stage = "fuse-interior-padding"} {
  func.func @main(%arg0: tensor<4x16x8x8xf32>, %arg1: tensor<4x24x24x24xf32>, %arg2: tensor<16x24x5x5xf32>) -> tensor<4x24x24x24xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 5, 1, 600, 25>} : (tensor<16x24x5x5xf32>) -> tensor<5x5x16x24xf32>
    %1 = tensor.empty() : tensor<5x5x16x24xf32>
    %2 = linalg.copy ins(%0 : tensor<5x5x16x24xf32>) outs(%1 : tensor<5x5x16x24xf32>) -> tensor<5x5x16x24xf32>
    %3 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<4x16x8x8xf32>) -> tensor<4x16x10x10xf32>
    %4 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %5 = "ftm.view"(%2) {offset = 9216 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %6 = arith.constant 0.0 : f32
    %7 = tensor.empty() : tensor<4x24x8x8xf32>
    %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %9 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%4, %5 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%8 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %10 = "ftm.view"(%3) {offset = 1 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x8xf32>
    %11 = "ftm.view"(%2) {offset = 8448 : i64, strides = array<i64: 1, 24, -5760, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x1xf32>
    %12 = tensor.empty() : tensor<4x24x8x8xf32>
    %13 = linalg.fill ins(%6 : f32) outs(%12 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %14 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%10, %11 : tensor<4x16x9x8xf32>, tensor<24x16x2x1xf32>) outs(%13 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %15 = "ftm.view"(%3) {offset = 1 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %16 = "ftm.view"(%2) {offset = 8832 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %17 = tensor.empty() : tensor<4x24x8x8xf32>
    %18 = linalg.fill ins(%6 : f32) outs(%17 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %19 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%15, %16 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%18 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %20 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %21 = "ftm.update"(%20, %9) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %22 = "ftm.update"(%21, %14) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %23 = "ftm.update"(%22, %19) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %24 = "ftm.view"(%23) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %25 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %26 = linalg.copy ins(%24 : tensor<4x24x8x8x3xf32>) outs(%25 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %27 = "ftm.view"(%3) {offset = 10 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x9xf32>
    %28 = "ftm.view"(%2) {offset = 5376 : i64, strides = array<i64: 1, 24, 0, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x2xf32>
    %29 = tensor.empty() : tensor<4x24x8x8xf32>
    %30 = linalg.fill ins(%6 : f32) outs(%29 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %31 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%27, %28 : tensor<4x16x8x9xf32>, tensor<24x16x1x2xf32>) outs(%30 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %32 = "ftm.view"(%3) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x8xf32>
    %33 = "ftm.view"(%2) {offset = 4608 : i64, strides = array<i64: 1, 24, 0, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x1xf32>
    %34 = tensor.empty() : tensor<4x24x8x8xf32>
    %35 = linalg.fill ins(%6 : f32) outs(%34 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %36 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%32, %33 : tensor<4x16x8x8xf32>, tensor<24x16x1x1xf32>) outs(%35 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %37 = "ftm.view"(%3) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x8x9xf32>
    %38 = "ftm.view"(%2) {offset = 4992 : i64, strides = array<i64: 1, 24, 0, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x1x2xf32>
    %39 = tensor.empty() : tensor<4x24x8x8xf32>
    %40 = linalg.fill ins(%6 : f32) outs(%39 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %41 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%37, %38 : tensor<4x16x8x9xf32>, tensor<24x16x1x2xf32>) outs(%40 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %42 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %43 = "ftm.update"(%42, %31) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %44 = "ftm.update"(%43, %36) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %45 = "ftm.update"(%44, %41) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %46 = "ftm.view"(%45) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %47 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %48 = linalg.copy ins(%46 : tensor<4x24x8x8x3xf32>) outs(%47 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %49 = "ftm.view"(%3) {offset = 10 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %50 = "ftm.view"(%2) {offset = 7296 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %51 = tensor.empty() : tensor<4x24x8x8xf32>
    %52 = linalg.fill ins(%6 : f32) outs(%51 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %53 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%49, %50 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%52 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %54 = "ftm.view"(%3) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x8xf32>
    %55 = "ftm.view"(%2) {offset = 6528 : i64, strides = array<i64: 1, 24, -5760, 0>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x1xf32>
    %56 = tensor.empty() : tensor<4x24x8x8xf32>
    %57 = linalg.fill ins(%6 : f32) outs(%56 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %58 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%54, %55 : tensor<4x16x9x8xf32>, tensor<24x16x2x1xf32>) outs(%57 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %59 = "ftm.view"(%3) {offset = 11 : i64, strides = array<i64: 1600, 100, 10, 1>} : (tensor<4x16x10x10xf32>) -> tensor<4x16x9x9xf32>
    %60 = "ftm.view"(%2) {offset = 6912 : i64, strides = array<i64: 1, 24, -5760, -1152>} : (tensor<5x5x16x24xf32>) -> tensor<24x16x2x2xf32>
    %61 = tensor.empty() : tensor<4x24x8x8xf32>
    %62 = linalg.fill ins(%6 : f32) outs(%61 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %63 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%59, %60 : tensor<4x16x9x9xf32>, tensor<24x16x2x2xf32>) outs(%62 : tensor<4x24x8x8xf32>) -> tensor<4x24x8x8xf32>
    %64 = tensor.empty() : tensor<3x4x24x8x8xf32>
    %65 = "ftm.update"(%64, %53) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1>} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %66 = "ftm.update"(%65, %58) {offset = 6144 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %67 = "ftm.update"(%66, %63) {offset = 12288 : i64, strides = array<i64: 1536, 64, 8, 1>, joined} : (tensor<3x4x24x8x8xf32>, tensor<4x24x8x8xf32>) -> tensor<3x4x24x8x8xf32>
    %68 = "ftm.view"(%67) {offset = 0 : i64, strides = array<i64: 1536, 64, 8, 1, 6144>} : (tensor<3x4x24x8x8xf32>) -> tensor<4x24x8x8x3xf32>
    %69 = tensor.empty() : tensor<4x24x8x8x3xf32>
    %70 = linalg.copy ins(%68 : tensor<4x24x8x8x3xf32>) outs(%69 : tensor<4x24x8x8x3xf32>) -> tensor<4x24x8x8x3xf32>
    %71 = tensor.empty() : tensor<4x24x24x24xf32>
    %72 = "ftm.update"(%71, %26) {offset = 0 : i64, strides = array<i64: 13824, 576, 72, 3, 1>} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %73 = "ftm.update"(%72, %48) {offset = 24 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    %74 = "ftm.update"(%73, %70) {offset = 48 : i64, strides = array<i64: 13824, 576, 72, 3, 1>, joined} : (tensor<4x24x24x24xf32>, tensor<4x24x8x8x3xf32>) -> tensor<4x24x24x24xf32>
    return %74 : tensor<4x24x24x24xf32>
  }
}
