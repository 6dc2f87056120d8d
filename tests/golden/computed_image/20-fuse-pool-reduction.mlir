module attributes {ftm.stage = "fuse-pool-reduction"} {
  func.func @main(%arg0: tensor<2x4x24x24xf32>, %arg1: tensor<8x4x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<11x8x3x3xf32>, %arg7: tensor<2x11x24x24xf32>) -> (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %5 = "ftm.kernel"() ({
      %0 = arith.constant 1.0 : f32
      %1 = tensor.empty() : tensor<24x24xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<24x24xf32>) -> tensor<24x24xf32>
      %3 = tensor.empty() : tensor<24x24xf32>
      %4 = linalg.copy ins(%2 : tensor<24x24xf32>) outs(%3 : tensor<24x24xf32>) -> tensor<24x24xf32>
      "ftm.yield"(%4) : (tensor<24x24xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<24x24xf32>)
    %6 = "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x4x24x24xf32>) -> tensor<2x4x26x26xf32>
    %25:3 = "ftm.kernel"() ({
      %7 = arith.constant 0.0 : f32
      %8 = tensor.empty() : tensor<2x8x24x24xf32>
      %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
      %10 = linalg.conv_2d_nchw_fchw {strides = dense<[1, 1]> : tensor<2xi64>, dilations = dense<[1, 1]> : tensor<2xi64>} ins(%6, %arg1 : tensor<2x4x26x26xf32>, tensor<8x4x3x3xf32>) outs(%9 : tensor<2x8x24x24xf32>) -> tensor<2x8x24x24xf32>
      %11 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 4608, 192, 24, 1, 576>} : (tensor<2x8x24x24xf32>) -> tensor<2x3x8x24x8xf32>
      %12 = tensor.empty() : tensor<2x3x8xf32>
      %13 = linalg.fill ins(%7 : f32) outs(%12 : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
      %15 = arith.constant 0.0052083334885537624 : f32
      %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>], iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel"]} ins(%11 : tensor<2x3x8x24x8xf32>) outs(%13 : tensor<2x3x8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %16 = arith.mulf %in0, %15 : f32
        %17 = arith.addf %out0, %16 : f32
        linalg.yield %17 : f32
      } -> tensor<2x3x8xf32>
      %18 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 4608, 192, 24, 1, 576>} : (tensor<2x8x24x24xf32>) -> tensor<2x3x8x24x8xf32>
      %19 = tensor.empty() : tensor<2x3x8xf32>
      %20 = linalg.fill ins(%7 : f32) outs(%19 : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
      %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>], iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel"]} ins(%18, %14 : tensor<2x3x8x24x8xf32>, tensor<2x3x8xf32>) outs(%20 : tensor<2x3x8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %22 = arith.subf %in0, %in1 : f32
        %23 = arith.mulf %22, %22 : f32
        %24 = arith.addf %out0, %23 : f32
        linalg.yield %24 : f32
      } -> tensor<2x3x8xf32>
      "ftm.yield"(%10, %14, %21) : (tensor<2x8x24x24xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> ()
    }) {kind = "summed"} : () -> (tensor<2x8x24x24xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>)
    %53:2 = "ftm.kernel"() ({
      %26 = arith.constant 0.0 : f32
      %27 = tensor.empty() : tensor<8xf32>
      %28 = linalg.fill ins(%26 : f32) outs(%27 : tensor<8xf32>) -> tensor<8xf32>
      %30 = arith.constant 192.0 : f32
      %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>], iterator_types = ["reduction", "reduction", "parallel"]} ins(%25#1 : tensor<2x3x8xf32>) outs(%28 : tensor<8xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %31 = arith.mulf %in0, %30 : f32
        %32 = arith.addf %out0, %31 : f32
        linalg.yield %32 : f32
      } -> tensor<8xf32>
      %33 = tensor.empty() : tensor<1x8x1x1xf32>
      %35 = arith.constant 1152.0 : f32
      %34 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29 : tensor<8xf32>) outs(%33 : tensor<1x8x1x1xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %36 = arith.divf %in0, %35 : f32
        linalg.yield %36 : f32
      } -> tensor<1x8x1x1xf32>
      %37 = tensor.empty() : tensor<8xf32>
      %38 = linalg.fill ins(%26 : f32) outs(%37 : tensor<8xf32>) -> tensor<8xf32>
      %39 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (0, d2, 0, 0)>, affine_map<(d0, d1, d2) -> (d2)>], iterator_types = ["reduction", "reduction", "parallel"]} ins(%25#1, %25#2, %34 : tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<1x8x1x1xf32>) outs(%38 : tensor<8xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %40 = arith.subf %in0, %in2 : f32
        %41 = arith.mulf %40, %40 : f32
        %42 = arith.mulf %30, %41 : f32
        %43 = arith.addf %in1, %42 : f32
        %44 = arith.addf %out0, %43 : f32
        linalg.yield %44 : f32
      } -> tensor<8xf32>
      %45 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%39 : tensor<8xf32>) outs(%33 : tensor<1x8x1x1xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %46 = arith.subf %35, %26 : f32
        %47 = arith.maximumf %46, %26 : f32
        %48 = arith.divf %in0, %47 : f32
        linalg.yield %48 : f32
      } -> tensor<1x8x1x1xf32>
      %50 = arith.constant 9.999999747378752e-06 : f32
      %49 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%45 : tensor<1x8x1x1xf32>) outs(%33 : tensor<1x8x1x1xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %51 = arith.addf %in0, %50 : f32
        %52 = math.rsqrt %51 : f32
        linalg.yield %52 : f32
      } -> tensor<1x8x1x1xf32>
      "ftm.yield"(%34, %49) : (tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>)
    %54 = "ftm.border"(%5) {low = array<i64: 1, 1>} : (tensor<24x24xf32>) -> tensor<26x26xf32>
    %55 = "ftm.border"(%25#0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %75:2 = "ftm.kernel"() ({
      %56 = tensor.empty() : tensor<2x8x26x26xf32>
      %58 = arith.constant 0.0 : f32
      %57 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%54, %55, %53#0, %53#1, %arg2, %arg3 : tensor<26x26xf32>, tensor<2x8x26x26xf32>, tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>, tensor<8xf32>, tensor<8xf32>) outs(%56 : tensor<2x8x26x26xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %in5: f32, %out0: f32):
        %59 = arith.cmpf oeq, %in0, %58 : f32
        %60 = arith.subf %in1, %in2 : f32
        %61 = arith.mulf %60, %in3 : f32
        %62 = arith.mulf %61, %in4 : f32
        %63 = arith.addf %62, %in5 : f32
        %64 = arith.maximumf %63, %58 : f32
        %65 = arith.select %59, %58, %64 : f32
        linalg.yield %65 : f32
      } -> tensor<2x8x26x26xf32>
      %66 = "ftm.view"(%57) {offset = 0 : i64, strides = array<i64: 5408, 26, 1, 676, 26, 1>} : (tensor<2x8x26x26xf32>) -> tensor<2x24x24x8x3x3xf32>
      %67 = tensor.empty() : tensor<2x11x24x24xf32>
      %68 = linalg.fill ins(%58 : f32) outs(%67 : tensor<2x11x24x24xf32>) -> tensor<2x11x24x24xf32>
      %69 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2, d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%66, %arg6 : tensor<2x24x24x8x3x3xf32>, tensor<11x8x3x3xf32>) outs(%68 : tensor<2x11x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %70 = arith.mulf %in0, %in1 : f32
        %71 = arith.addf %out0, %70 : f32
        linalg.yield %71 : f32
      } -> tensor<2x11x24x24xf32>
      %72 = tensor.empty() : tensor<2x11x24x24xf32>
      %73 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%69, %arg7 : tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>) outs(%72 : tensor<2x11x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %74 = arith.mulf %in0, %in1 : f32
        linalg.yield %74 : f32
      } -> tensor<2x11x24x24xf32>
      "ftm.yield"(%69, %73) : (tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>) -> ()
    }) {kind = "computed"} : () -> (tensor<2x11x24x24xf32>, tensor<2x11x24x24xf32>)
    %87 = "ftm.kernel"() ({
      %76 = "ftm.conv_transpose"(%75#1, %arg6) {dilation = "1,1", padding = "1,1", stride = "1,1"} : (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>) -> tensor<2x8x24x24xf32>
      %77 = tensor.empty() : tensor<2x8x24x24xf32>
      %79 = arith.constant 0.0 : f32
      %78 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%25#0, %53#0, %53#1, %arg2, %arg3, %76 : tensor<2x8x24x24xf32>, tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x8x24x24xf32>) outs(%77 : tensor<2x8x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %in5: f32, %out0: f32):
        %80 = arith.subf %in0, %in1 : f32
        %81 = arith.mulf %80, %in2 : f32
        %82 = arith.mulf %81, %in3 : f32
        %83 = arith.addf %82, %in4 : f32
        %84 = arith.maximumf %83, %79 : f32
        %85 = arith.cmpf ole, %84, %79 : f32
        %86 = arith.select %85, %79, %in5 : f32
        linalg.yield %86 : f32
      } -> tensor<2x8x24x24xf32>
      "ftm.yield"(%78) : (tensor<2x8x24x24xf32>) -> ()
    }) {kind = "fold"} : () -> (tensor<2x8x24x24xf32>)
    %105 = "ftm.kernel"() ({
      %88 = tensor.empty() : tensor<2x8x26x26xf32>
      %90 = arith.constant 0.0 : f32
      %89 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (0, d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%54, %55, %53#0, %53#1, %arg2, %arg3 : tensor<26x26xf32>, tensor<2x8x26x26xf32>, tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>, tensor<8xf32>, tensor<8xf32>) outs(%88 : tensor<2x8x26x26xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %in5: f32, %out0: f32):
        %91 = arith.cmpf oeq, %in0, %90 : f32
        %92 = arith.subf %in1, %in2 : f32
        %93 = arith.mulf %92, %in3 : f32
        %94 = arith.mulf %93, %in4 : f32
        %95 = arith.addf %94, %in5 : f32
        %96 = arith.maximumf %95, %90 : f32
        %97 = arith.select %91, %90, %96 : f32
        linalg.yield %97 : f32
      } -> tensor<2x8x26x26xf32>
      %98 = "ftm.view"(%89) {offset = 0 : i64, strides = array<i64: 5408, 676, 26, 1, 26, 1>} : (tensor<2x8x26x26xf32>) -> tensor<2x8x3x3x24x24xf32>
      %99 = tensor.empty() : tensor<1xi8>
      %100 = tensor.empty() : tensor<2x1x11x8x3x3xf32>
      %101 = linalg.fill ins(%90 : f32) outs(%100 : tensor<2x1x11x8x3x3xf32>) -> tensor<2x1x11x8x3x3xf32>
      %102 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d2, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d5, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%75#1, %98, %99 : tensor<2x11x24x24xf32>, tensor<2x8x3x3x24x24xf32>, tensor<1xi8>) outs(%101 : tensor<2x1x11x8x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %103 = arith.mulf %in0, %in1 : f32
        %104 = arith.addf %out0, %103 : f32
        linalg.yield %104 : f32
      } -> tensor<2x1x11x8x3x3xf32>
      "ftm.yield"(%102) : (tensor<2x1x11x8x3x3xf32>) -> ()
    }) {kind = "computed"} : () -> (tensor<2x1x11x8x3x3xf32>)
    %111 = "ftm.kernel"() ({
      %106 = arith.constant 0.0 : f32
      %107 = tensor.empty() : tensor<1x11x8x3x3xf32>
      %108 = linalg.fill ins(%106 : f32) outs(%107 : tensor<1x11x8x3x3xf32>) -> tensor<1x11x8x3x3xf32>
      %109 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, 0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%105 : tensor<2x1x11x8x3x3xf32>) outs(%108 : tensor<1x11x8x3x3xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %110 = arith.addf %out0, %in0 : f32
        linalg.yield %110 : f32
      } -> tensor<1x11x8x3x3xf32>
      "ftm.yield"(%109) : (tensor<1x11x8x3x3xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<1x11x8x3x3xf32>)
    %112 = "ftm.view"(%111) {offset = 0 : i64, strides = array<i64: 72, 9, 3, 1>} : (tensor<1x11x8x3x3xf32>) -> tensor<11x8x3x3xf32>
    return %75#0, %112, %87 : tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>
  }
}
