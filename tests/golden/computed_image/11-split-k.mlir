module attributes {ftm.stage = "split-k"} {
  func.func @main(%arg0: tensor<2x4x24x24xf32>, %arg1: tensor<8x4x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<11x8x3x3xf32>, %arg7: tensor<2x11x24x24xf32>) -> (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x4x24x24xf32>) -> tensor<2x4x26x26xf32>
    %1 = arith.constant 0.0 : f32
    %2 = tensor.empty() : tensor<2x8x24x24xf32>
    %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
    %4 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %arg1 : tensor<2x4x26x26xf32>, tensor<8x4x3x3xf32>) outs(%3 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
    %5 = tensor.empty() : tensor<8xf32>
    %6 = linalg.fill ins(%1 : f32) outs(%5 : tensor<8xf32>) -> tensor<8xf32>
    %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%4 : tensor<2x8x24x24xf32>) outs(%6 : tensor<8xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %8 = arith.addf %out0, %in0 : f32
      linalg.yield %8 : f32
    } -> tensor<8xf32>
    %9 = tensor.empty() : tensor<1x8x1x1xf32>
    %11 = arith.constant 1152.0 : f32
    %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%7 : tensor<8xf32>) outs(%9 : tensor<1x8x1x1xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %12 = arith.divf %in0, %11 : f32
      linalg.yield %12 : f32
    } -> tensor<1x8x1x1xf32>
    %13 = tensor.empty() : tensor<8xf32>
    %14 = linalg.fill ins(%1 : f32) outs(%13 : tensor<8xf32>) -> tensor<8xf32>
    %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%4, %10 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>) outs(%14 : tensor<8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %16 = arith.subf %in0, %in1 : f32
      %17 = arith.subf %in0, %in1 : f32
      %18 = arith.mulf %16, %17 : f32
      %19 = arith.addf %out0, %18 : f32
      linalg.yield %19 : f32
    } -> tensor<8xf32>
    %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15 : tensor<8xf32>) outs(%9 : tensor<1x8x1x1xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %21 = arith.subf %11, %1 : f32
      %22 = arith.maximumf %21, %1 : f32
      %23 = arith.divf %in0, %22 : f32
      linalg.yield %23 : f32
    } -> tensor<1x8x1x1xf32>
    %25 = arith.constant 9.999999747378752e-06 : f32
    %24 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%20 : tensor<1x8x1x1xf32>) outs(%9 : tensor<1x8x1x1xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %26 = arith.addf %in0, %25 : f32
      %27 = math.rsqrt %26 : f32
      linalg.yield %27 : f32
    } -> tensor<1x8x1x1xf32>
    %28 = tensor.empty() : tensor<2x8x24x24xf32>
    %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%4, %10, %24, %arg2, %arg3 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>, tensor<8xf32>, tensor<8xf32>) outs(%28 : tensor<2x8x24x24xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %out0: f32):
      %30 = arith.subf %in0, %in1 : f32
      %31 = arith.mulf %30, %in2 : f32
      %32 = arith.mulf %31, %in3 : f32
      %33 = arith.addf %32, %in4 : f32
      linalg.yield %33 : f32
    } -> tensor<2x8x24x24xf32>
    %34 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29 : tensor<2x8x24x24xf32>) outs(%28 : tensor<2x8x24x24xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %35 = arith.maximumf %in0, %1 : f32
      linalg.yield %35 : f32
    } -> tensor<2x8x24x24xf32>
    %36 = "ftm.border"(%34) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %37 = tensor.empty() : tensor<2x11x24x24xf32>
    %38 = linalg.fill ins(%1 : f32) outs(%37 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
    %39 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%36, %arg6 : tensor<2x8x26x26xf32>, tensor<11x8x3x3xf32>) outs(%38 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
    %40 = tensor.empty() : tensor<2x11x24x24xf32>
    %41 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%39, %arg7 : tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>) outs(%40 : tensor<2x11x24x24xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %42 = arith.mulf %in0, %in1 : f32
      linalg.yield %42 : f32
    } -> tensor<2x11x24x24xf32>
    %43 = "ftm.conv_transpose"(%41, %arg6) {dilation = "1,1", padding = "1,1", stride = "1,1"} : (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>) -> tensor<2x8x24x24xf32>
    %44 = "ftm.view"(%41) {offset = 0 : i64, strides = array<i64: 6336, 576, 0, 24, 1>} : (tensor<2x11x24x24xf32>) -> tensor<2x11x1x24x24xf32>
    %45 = "ftm.border"(%34) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %46 = "ftm.view"(%45) {offset = 0 : i64, strides = array<i64: 5408, 676, 26, 1, 0, 26, 1>} : (tensor<2x8x26x26xf32>) -> tensor<2x8x3x3x1x24x24xf32>
    %47 = tensor.empty() : tensor<2x1x11x8x3x3xf32>
    %48 = linalg.fill ins(%1 : f32) outs(%47 : tensor<2x1x11x8x3x3xf32>) -> tensor<2x1x11x8x3x3xf32>
    %49 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d2, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d5, d6, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%44, %46 : tensor<2x11x1x24x24xf32>, tensor<2x8x3x3x1x24x24xf32>) outs(%48 : tensor<2x1x11x8x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %50 = arith.mulf %in0, %in1 : f32
      %51 = arith.addf %out0, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<2x1x11x8x3x3xf32>
    %52 = "ftm.view"(%49) {offset = 0 : i64, strides = array<i64: 0, 72, 9, 3, 1, 792>} : (tensor<2x1x11x8x3x3xf32>) -> tensor<1x11x8x3x3x2xf32>
    %53 = tensor.empty() : tensor<1x11x8x3x3xf32>
    %54 = linalg.fill ins(%1 : f32) outs(%53 : tensor<1x11x8x3x3xf32>) -> tensor<1x11x8x3x3xf32>
    %55 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%52 : tensor<1x11x8x3x3x2xf32>) outs(%54 : tensor<1x11x8x3x3xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %56 = arith.addf %out0, %in0 : f32
      linalg.yield %56 : f32
    } -> tensor<1x11x8x3x3xf32>
    %57 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%43, %34 : tensor<2x8x24x24xf32>, tensor<2x8x24x24xf32>) outs(%28 : tensor<2x8x24x24xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %58 = arith.cmpf ole, %in1, %1 : f32
      %59 = arith.select %58, %1, %in0 : f32
      linalg.yield %59 : f32
    } -> tensor<2x8x24x24xf32>
    %60 = "ftm.view"(%55) {offset = 0 : i64, strides = array<i64: 72, 9, 3, 1>} : (tensor<1x11x8x3x3xf32>) -> tensor<11x8x3x3xf32>
    return %39, %60, %57 : tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>
  }
}
