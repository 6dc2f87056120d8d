// RUN: ftm-opt --fuse-conv-prologue --machine m7032 --cores 8 %s | filecheck %s

// A convolution, its statistics, what normalizes and rectifies it, the next convolution and the gradients of that: the statistics are summed by the
// kernel of the first convolution, and the image has no kernel: who multiplies it, or asks where it is positive, computes it.
// CHECK-LABEL: func.func @main
// CHECK: linalg.conv_2d_nchw_fchw
// CHECK: {kind = "contraction-with-reduction", schedule = "depth=2 {{.*}}"}
// CHECK: kind = "loop-nest"
// CHECK: arith.maximumf
// CHECK: {kind = "contraction-with-prologue", schedule = "depth=2 {{.*}}"}
// CHECK: arith.maximumf
// CHECK: {kind = "col2im", schedule = "depth=2 {{.*}}"}
// CHECK: arith.maximumf
// CHECK: {kind = "contraction-with-prologue", schedule = "depth=2 {{.*}}"}

module attributes {ftm.stage = "fuse-gemm-prologue"} {
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
    }) {kind = "loop-nest"} : () -> (tensor<2x8x24x24xf32>)
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
    %54 = "ftm.kernel"() ({
      %48 = "ftm.conv_transpose"(%47#1, %arg6) {dilation = "1,1", padding = "1,1", stride = "1,1"} : (tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>) -> tensor<2x8x24x24xf32>
      %49 = tensor.empty() : tensor<2x8x24x24xf32>
      %51 = arith.constant 0.0 : f32
      %50 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%48, %38 : tensor<2x8x24x24xf32>, tensor<2x8x24x24xf32>) outs(%49 : tensor<2x8x24x24xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %52 = arith.cmpf ole, %in1, %51 : f32
        %53 = arith.select %52, %51, %in0 : f32
        linalg.yield %53 : f32
      } -> tensor<2x8x24x24xf32>
      "ftm.yield"(%50) : (tensor<2x8x24x24xf32>) -> ()
    }) {kind = "col2im"} : () -> (tensor<2x8x24x24xf32>)
    %55 = "ftm.border"(%38) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x8x24x24xf32>) -> tensor<2x8x26x26xf32>
    %64 = "ftm.kernel"() ({
      %56 = "ftm.view"(%55) {offset = 0 : i64, strides = array<i64: 5408, 676, 26, 1, 26, 1>} : (tensor<2x8x26x26xf32>) -> tensor<2x8x3x3x24x24xf32>
      %57 = tensor.empty() : tensor<1xi8>
      %58 = arith.constant 0.0 : f32
      %59 = tensor.empty() : tensor<2x1x11x8x3x3xf32>
      %60 = linalg.fill ins(%58 : f32) outs(%59 : tensor<2x1x11x8x3x3xf32>) -> tensor<2x1x11x8x3x3xf32>
      %61 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d2, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d3, d4, d5, d7, d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%47#1, %56, %57 : tensor<2x11x24x24xf32>, tensor<2x8x3x3x24x24xf32>, tensor<1xi8>) outs(%60 : tensor<2x1x11x8x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %62 = arith.mulf %in0, %in1 : f32
        %63 = arith.addf %out0, %62 : f32
        linalg.yield %63 : f32
      } -> tensor<2x1x11x8x3x3xf32>
      "ftm.yield"(%61) : (tensor<2x1x11x8x3x3xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x1x11x8x3x3xf32>)
    %70 = "ftm.kernel"() ({
      %65 = arith.constant 0.0 : f32
      %66 = tensor.empty() : tensor<1x11x8x3x3xf32>
      %67 = linalg.fill ins(%65 : f32) outs(%66 : tensor<1x11x8x3x3xf32>) -> tensor<1x11x8x3x3xf32>
      %68 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, 0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%64 : tensor<2x1x11x8x3x3xf32>) outs(%67 : tensor<1x11x8x3x3xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %69 = arith.addf %out0, %in0 : f32
        linalg.yield %69 : f32
      } -> tensor<1x11x8x3x3xf32>
      "ftm.yield"(%68) : (tensor<1x11x8x3x3xf32>) -> ()
    }) {kind = "loop-nest", one_core} : () -> (tensor<1x11x8x3x3xf32>)
    %71 = "ftm.view"(%70) {offset = 0 : i64, strides = array<i64: 72, 9, 3, 1>} : (tensor<1x11x8x3x3xf32>) -> tensor<11x8x3x3xf32>
    return %47#0, %71, %54 : tensor<2x11x24x24xf32>, tensor<11x8x3x3xf32>, tensor<2x8x24x24xf32>
  }
}
