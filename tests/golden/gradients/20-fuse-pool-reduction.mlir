module attributes {ftm.stage = "fuse-pool-reduction"} {
  func.func @main(%arg0: tensor<8x48x1x1xf32>, %arg1: tensor<8x48x1x1xf32>, %arg2: tensor<48x48x3x3xf32>, %arg3: tensor<48x48x3x3xf32>, %arg4: f64, %arg5: f64) -> (tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %0 = "ftm.border"(%arg1) {low = array<i64: 0, 0, 1, 1>} : (tensor<8x48x1x1xf32>) -> tensor<8x48x3x3xf32>
    %22:3 = "ftm.kernel"() ({
      %1 = "ftm.conv_transpose"(%arg0, %arg2) {dilation = "1,1", padding = "1,1", stride = "1,1"} : (tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>) -> tensor<8x48x1x1xf32>
      %2 = tensor.empty() : tensor<1x1xi8>
      %3 = arith.constant 0.0 : f32
      %4 = tensor.empty() : tensor<1x48x48x3x3xf32>
      %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<1x48x48x3x3xf32>) -> tensor<1x48x48x3x3xf32>
      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d1, 0, 0)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%arg0, %0, %2 : tensor<8x48x1x1xf32>, tensor<8x48x3x3xf32>, tensor<1x1xi8>) outs(%5 : tensor<1x48x48x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %unused: i8, %out0: f32):
        %7 = arith.mulf %in0, %in1 : f32
        %8 = arith.addf %out0, %7 : f32
        linalg.yield %8 : f32
      } -> tensor<1x48x48x3x3xf32>
      %9 = tensor.empty() : tensor<48x48x3x3xf32>
      %11 = arith.constant 1.0 : f32
      %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg3, %6 : tensor<48x48x3x3xf32>, tensor<1x48x48x3x3xf32>) outs(%9 : tensor<48x48x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %12 = arith.truncf %arg4 : f64 to f32
        %13 = arith.mulf %in0, %12 : f32
        %14 = arith.mulf %in1, %11 : f32
        %15 = arith.addf %13, %14 : f32
        linalg.yield %15 : f32
      } -> tensor<48x48x3x3xf32>
      %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10 : tensor<48x48x3x3xf32>) outs(%9 : tensor<48x48x3x3xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %17 = arith.truncf %arg5 : f64 to f32
        %18 = arith.mulf %in0, %17 : f32
        linalg.yield %18 : f32
      } -> tensor<48x48x3x3xf32>
      %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2, %16 : tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) outs(%9 : tensor<48x48x3x3xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %20 = arith.mulf %in1, %11 : f32
        %21 = arith.subf %in0, %20 : f32
        linalg.yield %21 : f32
      } -> tensor<48x48x3x3xf32>
      "ftm.yield"(%1, %10, %19) : (tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>) -> ()
    }) {kind = "gradients"} : () -> (tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>)
    return %22#0, %22#1, %22#2 : tensor<8x48x1x1xf32>, tensor<48x48x3x3xf32>, tensor<48x48x3x3xf32>
  }
}
