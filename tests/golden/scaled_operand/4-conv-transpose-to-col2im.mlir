module attributes {ftm.stage = "conv-transpose-to-col2im"} {
  func.func @main(%arg0: tensor<64x48xf32>, %arg1: tensor<64x96xf32>, %arg2: tensor<48x96xf32>, %arg3: f64) -> tensor<48x96xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1, 48>} : (tensor<64x48xf32>) -> tensor<48x64xf32>
    %1 = arith.constant 0.0 : f32
    %2 = tensor.empty() : tensor<48x96xf32>
    %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<48x96xf32>) -> tensor<48x96xf32>
    %4 = linalg.matmul ins(%0, %arg1 : tensor<48x64xf32>, tensor<64x96xf32>) outs(%3 : tensor<48x96xf32>) -> tensor<48x96xf32>
    %5 = tensor.empty() : tensor<48x96xf32>
    %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<48x96xf32>) outs(%5 : tensor<48x96xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %7 = arith.truncf %arg3 : f64 to f32
      %8 = arith.mulf %in0, %7 : f32
      linalg.yield %8 : f32
    } -> tensor<48x96xf32>
    %10 = arith.constant 1.0 : f32
    %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%6, %4 : tensor<48x96xf32>, tensor<48x96xf32>) outs(%5 : tensor<48x96xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %11 = arith.mulf %in1, %10 : f32
      %12 = arith.subf %in0, %11 : f32
      linalg.yield %12 : f32
    } -> tensor<48x96xf32>
    return %9 : tensor<48x96xf32>
  }
}
