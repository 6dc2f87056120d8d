module attributes {ftm.stage = "assign-buffers", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [64, 48]], [\"b1\", \"f32\", [48, 40]], [\"b2\", \"f32\", [40]]], \"scalars\": [[\"s0\", \"i64\"]], \"outputs\": [[\"o0\", \"f32\", [64, 40], \"\"]], \"consts\": [], \"arena\": [[\"t0\", 0, \"f32\", [64, 40]]], \"windows\": [], \"arena_bytes\": 10240}"} {
  func.func @main(%arg0: tensor<64x48xf32>, %arg1: tensor<48x40xf32>, %arg2: tensor<40xf32>, %arg3: i64) -> tensor<64x40xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %9 = "ftm.kernel"() ({
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
      "ftm.yield"(%5) : (tensor<64x40xf32>) -> ()
    }) {kind = "contraction", inputs = ["b0", "b1", "b2"], outputs = ["t0"]} : () -> (tensor<64x40xf32>)
    %27 = "ftm.kernel"() ({
      %10 = arith.constant 0xFF800000 : f32
      %11 = tensor.empty() : tensor<64xf32>
      %12 = linalg.fill ins(%10 : f32) outs(%11 : tensor<64xf32>) -> tensor<64xf32>
      %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%9 : tensor<64x40xf32>) outs(%12 : tensor<64xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %14 = arith.maximumf %out0, %in0 : f32
        linalg.yield %14 : f32
      } -> tensor<64xf32>
      %15 = arith.constant 0.0 : f32
      %16 = tensor.empty() : tensor<64xf32>
      %17 = linalg.fill ins(%15 : f32) outs(%16 : tensor<64xf32>) -> tensor<64xf32>
      %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%9, %13 : tensor<64x40xf32>, tensor<64xf32>) outs(%17 : tensor<64xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %19 = arith.subf %in0, %in1 : f32
        %20 = math.exp %19 : f32
        %21 = arith.addf %out0, %20 : f32
        linalg.yield %21 : f32
      } -> tensor<64xf32>
      %22 = tensor.empty() : tensor<64x40xf32>
      %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%9, %13, %18 : tensor<64x40xf32>, tensor<64xf32>, tensor<64xf32>) outs(%22 : tensor<64x40xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %24 = arith.subf %in0, %in1 : f32
        %25 = math.exp %24 : f32
        %26 = arith.divf %25, %in2 : f32
        linalg.yield %26 : f32
      } -> tensor<64x40xf32>
      "ftm.yield"(%23) : (tensor<64x40xf32>) -> ()
    }) {kind = "nest", one_core, barrier, inputs = ["t0"], outputs = ["o0"]} : () -> (tensor<64x40xf32>)
    return %27 : tensor<64x40xf32>
  }
}
