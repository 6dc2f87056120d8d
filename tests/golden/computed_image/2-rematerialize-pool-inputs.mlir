module attributes {ftm.stage = "rematerialize-pool-inputs"} {
  func.func @main(%arg0: tensor<2x4x24x24xf32>, %arg1: tensor<8x4x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<11x8x3x3xf32>, %arg7: tensor<2x11x24x24xf32>) -> (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<2x4x26x26xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2x4x26x26xf32>) -> tensor<2x4x26x26xf32>
    %3 = "ftm.update"(%2, %arg0) {offset = 27 : i64, strides = array<i64: 2704, 676, 26, 1>} : (tensor<2x4x26x26xf32>, tensor<2x4x24x24xf32>) -> tensor<2x4x26x26xf32>
    %4 = tensor.empty() : tensor<2x8x24x24xf32>
    %5 = linalg.fill ins(%0 : f32) outs(%4 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
    %6 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%3, %arg1 : tensor<2x4x26x26xf32>, tensor<8x4x3x3xf32>) outs(%5 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
    %7 = tensor.empty() : tensor<8xf32>
    %8 = linalg.fill ins(%0 : f32) outs(%7 : tensor<8xf32>) -> tensor<8xf32>
    %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%6 : tensor<2x8x24x24xf32>) outs(%8 : tensor<8xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %10 = arith.addf %out0, %in0 : f32
      linalg.yield %10 : f32
    } -> tensor<8xf32>
    %11 = tensor.empty() : tensor<1x8x1x1xf32>
    %13 = arith.constant 1152.0 : f32
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9 : tensor<8xf32>) outs(%11 : tensor<1x8x1x1xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %14 = arith.divf %in0, %13 : f32
      linalg.yield %14 : f32
    } -> tensor<1x8x1x1xf32>
    %15 = tensor.empty() : tensor<8xf32>
    %16 = linalg.fill ins(%0 : f32) outs(%15 : tensor<8xf32>) -> tensor<8xf32>
    %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%6, %12 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>) outs(%16 : tensor<8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %18 = arith.subf %in0, %in1 : f32
      %19 = arith.subf %in0, %in1 : f32
      %20 = arith.mulf %18, %19 : f32
      %21 = arith.addf %out0, %20 : f32
      linalg.yield %21 : f32
    } -> tensor<8xf32>
    %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17 : tensor<8xf32>) outs(%11 : tensor<1x8x1x1xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %23 = arith.subf %13, %0 : f32
      %24 = arith.maximumf %23, %0 : f32
      %25 = arith.divf %in0, %24 : f32
      linalg.yield %25 : f32
    } -> tensor<1x8x1x1xf32>
    %27 = arith.constant 9.999999747378752e-06 : f32
    %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%22 : tensor<1x8x1x1xf32>) outs(%11 : tensor<1x8x1x1xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %28 = arith.addf %in0, %27 : f32
      %29 = math.rsqrt %28 : f32
      linalg.yield %29 : f32
    } -> tensor<1x8x1x1xf32>
    %30 = tensor.empty() : tensor<2x8x24x24xf32>
    %31 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %12, %26, %arg2, %arg3 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>, tensor<8xf32>, tensor<8xf32>) outs(%30 : tensor<2x8x24x24xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %out0: f32):
      %32 = arith.subf %in0, %in1 : f32
      %33 = arith.mulf %32, %in2 : f32
      %34 = arith.mulf %33, %in3 : f32
      %35 = arith.addf %34, %in4 : f32
      linalg.yield %35 : f32
    } -> tensor<2x8x24x24xf32>
    %36 = tensor.empty() : tensor<8xf32>
    %38 = arith.constant 0.8999999761581421 : f32
    %39 = arith.constant 0.10000000149011612 : f32
    %37 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0, d0, 0, 0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%arg4, %12 : tensor<8xf32>, tensor<1x8x1x1xf32>) outs(%36 : tensor<8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %40 = arith.mulf %in0, %38 : f32
      %41 = arith.mulf %in1, %39 : f32
      %42 = arith.addf %40, %41 : f32
      linalg.yield %42 : f32
    } -> tensor<8xf32>
    %44 = arith.constant 0.10008688271045685 : f32
    %43 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0, d0, 0, 0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%arg5, %22 : tensor<8xf32>, tensor<1x8x1x1xf32>) outs(%36 : tensor<8xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %45 = arith.mulf %in0, %38 : f32
      %46 = arith.mulf %in1, %44 : f32
      %47 = arith.addf %45, %46 : f32
      linalg.yield %47 : f32
    } -> tensor<8xf32>
    %48 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31 : tensor<2x8x24x24xf32>) outs(%30 : tensor<2x8x24x24xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %49 = arith.maximumf %in0, %0 : f32
      linalg.yield %49 : f32
    } -> tensor<2x8x24x24xf32>
    %50 = tensor.empty() : tensor<2x8x26x26xf32>
    %51 = linalg.fill ins(%0 : f32) outs(%50 : tensor<2x8x26x26xf32>) -> tensor<2x8x26x26xf32>
    %52 = "ftm.update"(%51, %48) {offset = 27 : i64, strides = array<i64: 5408, 676, 26, 1>} : (tensor<2x8x26x26xf32>, tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %53 = tensor.empty() : tensor<2x11x24x24xf32>
    %54 = linalg.fill ins(%0 : f32) outs(%53 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
    %55 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%52, %arg6 : tensor<2x8x26x26xf32>, tensor<11x8x3x3xf32>) outs(%54 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
    %56 = tensor.empty() : tensor<2x11x24x24xf32>
    %57 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%55, %arg7 : tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>) outs(%56 : tensor<2x11x24x24xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %58 = arith.mulf %in0, %in1 : f32
      linalg.yield %58 : f32
    } -> tensor<2x11x24x24xf32>
    %59 = tensor.empty() : tensor<2x11x26x26xf32>
    %60 = linalg.fill ins(%0 : f32) outs(%59 : tensor<2x11x26x26xf32>) -> tensor<2x11x26x26xf32>
    %61 = "ftm.update"(%60, %57) {offset = 27 : i64, strides = array<i64: 7436, 676, 26, 1>} : (tensor<2x11x26x26xf32>, tensor<2x11x24x24xf32>) -> tensor<2x11x26x26xf32>
    %62 = "ftm.view"(%arg6) {offset = 8 : i64, strides = array<i64: 9, 72, -3, -1>} : (tensor<11x8x3x3xf32>) -> tensor<8x11x3x3xf32>
    %63 = tensor.empty() : tensor<2x8x24x24xf32>
    %64 = linalg.fill ins(%0 : f32) outs(%63 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
    %65 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%61, %62 : tensor<2x11x26x26xf32>, tensor<8x11x3x3xf32>) outs(%64 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
    %66 = tensor.empty() : tensor<2x8x26x26xf32>
    %67 = linalg.fill ins(%0 : f32) outs(%66 : tensor<2x8x26x26xf32>) -> tensor<2x8x26x26xf32>
    %68 = "ftm.update"(%67, %48) {offset = 27 : i64, strides = array<i64: 5408, 676, 26, 1>} : (tensor<2x8x26x26xf32>, tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %69 = "ftm.view"(%68) {offset = 0 : i64, strides = array<i64: 676, 26, 1, 5408, 26, 1>} : (tensor<2x8x26x26xf32>) -> tensor<8x3x3x2x24x24xf32>
    %70 = tensor.empty() : tensor<1x11x8x3x3xf32>
    %71 = linalg.fill ins(%0 : f32) outs(%70 : tensor<1x11x8x3x3xf32>) -> tensor<1x11x8x3x3xf32>
    %72 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d1, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d2, d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%57, %69 : tensor<2x11x24x24xf32>, tensor<8x3x3x2x24x24xf32>) outs(%71 : tensor<1x11x8x3x3xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %73 = arith.mulf %in0, %in1 : f32
      %74 = arith.addf %out0, %73 : f32
      linalg.yield %74 : f32
    } -> tensor<1x11x8x3x3xf32>
    %75 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%65, %48 : tensor<2x8x24x24xf32>, tensor<2x8x24x24xf32>) outs(%30 : tensor<2x8x24x24xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %76 = arith.cmpf ole, %in1, %0 : f32
      %77 = arith.select %76, %0, %in0 : f32
      linalg.yield %77 : f32
    } -> tensor<2x8x24x24xf32>
    %78 = "ftm.view"(%72) {offset = 0 : i64, strides = array<i64: 72, 9, 3, 1>} : (tensor<1x11x8x3x3xf32>) -> tensor<11x8x3x3xf32>
    return %55, %78, %75 : tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>
  }
}
