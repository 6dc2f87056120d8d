module attributes {ftm.stage = "fuse-elementwise-producers"} {
  func.func @main(%arg0: tensor<64x48xf32>, %arg1: tensor<48x40xf32>, %arg2: tensor<40xf32>, %arg3: i64) -> tensor<64x40xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<64x40xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64x40xf32>) -> tensor<64x40xf32>
    %3 = linalg.matmul ins(%arg0, %arg1 : tensor<64x48xf32>, tensor<48x40xf32>) outs(%2 : tensor<64x40xf32>) -> tensor<64x40xf32>
    %4 = tensor.empty() : tensor<64x40xf32>
    %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3, %arg2 : tensor<64x40xf32>, tensor<40xf32>) outs(%4 : tensor<64x40xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %6 = arith.sitofp %arg3 : i64 to f32
      %7 = arith.mulf %in1, %6 : f32
      %8 = arith.addf %in0, %7 : f32
      linalg.yield %8 : f32
    } -> tensor<64x40xf32>
    %9 = arith.constant 0xFF800000 : f32
    %10 = tensor.empty() : tensor<64xf32>
    %11 = linalg.fill ins(%9 : f32) outs(%10 : tensor<64xf32>) -> tensor<64xf32>
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%5 : tensor<64x40xf32>) outs(%11 : tensor<64xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %13 = arith.maximumf %out0, %in0 : f32
      linalg.yield %13 : f32
    } -> tensor<64xf32>
    %14 = tensor.empty() : tensor<64xf32>
    %15 = linalg.fill ins(%0 : f32) outs(%14 : tensor<64xf32>) -> tensor<64xf32>
    %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%5, %12 : tensor<64x40xf32>, tensor<64xf32>) outs(%15 : tensor<64xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %17 = arith.subf %in0, %in1 : f32
      %18 = math.exp %17 : f32
      %19 = arith.addf %out0, %18 : f32
      linalg.yield %19 : f32
    } -> tensor<64xf32>
    %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5, %12, %16 : tensor<64x40xf32>, tensor<64xf32>, tensor<64xf32>) outs(%4 : tensor<64x40xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
      %21 = arith.subf %in0, %in1 : f32
      %22 = math.exp %21 : f32
      %23 = arith.divf %22, %in2 : f32
      linalg.yield %23 : f32
    } -> tensor<64x40xf32>
    return %20 : tensor<64x40xf32>
  }
}
