module attributes {ftm.stage = "fuse-conv-backward"} {
  func.func @main(%arg0: tensor<2x4x24x24xf32>, %arg1: tensor<8x4x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<11x8x3x3xf32>, %arg7: tensor<2x11x24x24xf32>) -> (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %0 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x4x24x24xf32>) -> tensor<2x4x26x26xf32>
    %5 = "ftm.kernel"() ({
      %1 = arith.constant 0.0 : f32
      %2 = tensor.empty() : tensor<2x8x24x24xf32>
      %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
      %4 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%0, %arg1 : tensor<2x4x26x26xf32>, tensor<8x4x3x3xf32>) outs(%3 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
      "ftm.yield"(%4) : (tensor<2x8x24x24xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x8x24x24xf32>)
    %38 = "ftm.kernel"() ({
      %6 = arith.constant 0.0 : f32
      %7 = tensor.empty() : tensor<8xf32>
      %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<8xf32>) -> tensor<8xf32>
      %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%5 : tensor<2x8x24x24xf32>) outs(%8 : tensor<8xf32>) {
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
      %16 = linalg.fill ins(%6 : f32) outs(%15 : tensor<8xf32>) -> tensor<8xf32>
      %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%5, %12 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>) outs(%16 : tensor<8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %18 = arith.subf %in0, %in1 : f32
        %19 = arith.subf %in0, %in1 : f32
        %20 = arith.mulf %18, %19 : f32
        %21 = arith.addf %out0, %20 : f32
        linalg.yield %21 : f32
      } -> tensor<8xf32>
      %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17 : tensor<8xf32>) outs(%11 : tensor<1x8x1x1xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %23 = arith.subf %13, %6 : f32
        %24 = arith.maximumf %23, %6 : f32
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
      %31 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5, %12, %26, %arg2, %arg3 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>, tensor<8xf32>, tensor<8xf32>) outs(%30 : tensor<2x8x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %out0: f32):
        %32 = arith.subf %in0, %in1 : f32
        %33 = arith.mulf %32, %in2 : f32
        %34 = arith.mulf %33, %in3 : f32
        %35 = arith.addf %34, %in4 : f32
        linalg.yield %35 : f32
      } -> tensor<2x8x24x24xf32>
      %36 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31 : tensor<2x8x24x24xf32>) outs(%30 : tensor<2x8x24x24xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %37 = arith.maximumf %in0, %6 : f32
        linalg.yield %37 : f32
      } -> tensor<2x8x24x24xf32>
      "ftm.yield"(%36) : (tensor<2x8x24x24xf32>) -> ()
    }) {kind = "nest"} : () -> (tensor<2x8x24x24xf32>)
    %39 = "ftm.border"(%38) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %47:2 = "ftm.kernel"() ({
      %40 = arith.constant 0.0 : f32
      %41 = tensor.empty() : tensor<2x11x24x24xf32>
      %42 = linalg.fill ins(%40 : f32) outs(%41 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
      %43 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%39, %arg6 : tensor<2x8x26x26xf32>, tensor<11x8x3x3xf32>) outs(%42 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
      %44 = tensor.empty() : tensor<2x11x24x24xf32>
      %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%43, %arg7 : tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>) outs(%44 : tensor<2x11x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %46 = arith.mulf %in0, %in1 : f32
        linalg.yield %46 : f32
      } -> tensor<2x11x24x24xf32>
      "ftm.yield"(%43, %45) : (tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>)
    %49 = "ftm.kernel"() ({
      %48 = "ftm.conv_transpose"(%47#1, %arg6) {dilation = "1,1", padding = "1,1", stride = "1,1"} : (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>) -> tensor<2x8x24x24xf32>
      "ftm.yield"(%48) : (tensor<2x8x24x24xf32>) -> ()
    }) {kind = "fold"} : () -> (tensor<2x8x24x24xf32>)
    %50 = "ftm.border"(%38) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %59 = "ftm.kernel"() ({
      %51 = "ftm.view"(%50) {offset = 0 : i64, strides = array<i64: 5408, 676, 26, 1, 26, 1>} : (tensor<2x8x26x26xf32>) -> tensor<2x8x3x3x24x24xf32>
      %52 = tensor.empty() : tensor<1xi8>
      %53 = arith.constant 0.0 : f32
      %54 = tensor.empty() : tensor<2x1x11x8x3x3xf32>
      %55 = linalg.fill ins(%53 : f32) outs(%54 : tensor<2x1x11x8x3x3xf32>) -> tensor<2x1x11x8x3x3xf32>
      %56 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d2, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d5, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%47#1, %51, %52 : tensor<2x11x24x24xf32>, tensor<2x8x3x3x24x24xf32>, tensor<1xi8>) outs(%55 : tensor<2x1x11x8x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %57 = arith.mulf %in0, %in1 : f32
        %58 = arith.addf %out0, %57 : f32
        linalg.yield %58 : f32
      } -> tensor<2x1x11x8x3x3xf32>
      "ftm.yield"(%56) : (tensor<2x1x11x8x3x3xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x1x11x8x3x3xf32>)
    %65 = "ftm.kernel"() ({
      %60 = arith.constant 0.0 : f32
      %61 = tensor.empty() : tensor<1x11x8x3x3xf32>
      %62 = linalg.fill ins(%60 : f32) outs(%61 : tensor<1x11x8x3x3xf32>) -> tensor<1x11x8x3x3xf32>
      %63 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, 0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%59 : tensor<2x1x11x8x3x3xf32>) outs(%62 : tensor<1x11x8x3x3xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %64 = arith.addf %out0, %in0 : f32
        linalg.yield %64 : f32
      } -> tensor<1x11x8x3x3xf32>
      "ftm.yield"(%63) : (tensor<1x11x8x3x3xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<1x11x8x3x3xf32>)
    %71 = "ftm.kernel"() ({
      %66 = tensor.empty() : tensor<2x8x24x24xf32>
      %68 = arith.constant 0.0 : f32
      %67 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%49, %38 : tensor<2x8x24x24xf32>, tensor<2x8x24x24xf32>) outs(%66 : tensor<2x8x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %69 = arith.cmpf ole, %in1, %68 : f32
        %70 = arith.select %69, %68, %in0 : f32
        linalg.yield %70 : f32
      } -> tensor<2x8x24x24xf32>
      "ftm.yield"(%67) : (tensor<2x8x24x24xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<2x8x24x24xf32>)
    %72 = "ftm.view"(%65) {offset = 0 : i64, strides = array<i64: 72, 9, 3, 1>} : (tensor<1x11x8x3x3xf32>) -> tensor<11x8x3x3xf32>
    return %47#0, %72, %71 : tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>
  }
}
