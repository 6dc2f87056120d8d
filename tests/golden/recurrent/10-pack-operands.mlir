module attributes {ftm.stage = "pack-operands"} {
  func.func @main(%arg0: tensor<5x3x16xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<16x4xf32>) -> (tensor<6x3x4xf32>, tensor<6x3x4xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32"]} {
    %0 = tensor.empty() : tensor<3x4xf32>
    %1 = linalg.copy ins(%arg1 : tensor<3x4xf32>) outs(%0 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %2 = tensor.empty() : tensor<6x3x4xf32>
    %3 = "ftm.update"(%2, %1) {offset = 0 : i64, strides = array<i64: 4, 1>} : (tensor<6x3x4xf32>, tensor<3x4xf32>) -> tensor<6x3x4xf32>
    %4 = tensor.empty() : tensor<3x4xf32>
    %5 = linalg.copy ins(%arg2 : tensor<3x4xf32>) outs(%4 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %6 = tensor.empty() : tensor<6x3x4xf32>
    %7 = "ftm.update"(%6, %5) {offset = 0 : i64, strides = array<i64: 4, 1>} : (tensor<6x3x4xf32>, tensor<3x4xf32>) -> tensor<6x3x4xf32>
    %8 = arith.constant 0 : index
    %9 = arith.constant 5 : index
    %10 = arith.constant 1 : index
    %11:2 = scf.for %k11 = %8 to %9 step %10 iter_args(%a11_0 = %3, %a11_1 = %7) -> (tensor<6x3x4xf32>, tensor<6x3x4xf32>) {
      %12 = "ftm.window"(%arg0, %k11) {start = 0 : i64, step = 48 : i64} : (tensor<5x3x16xf32>, index) -> tensor<3x16xf32>
      %13 = "ftm.window"(%a11_0, %k11) {start = 0 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, index) -> tensor<3x4xf32>
      %14 = "ftm.window"(%a11_1, %k11) {start = 0 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, index) -> tensor<3x4xf32>
      %15 = "ftm.view"(%arg3) {offset = 0 : i64, strides = array<i64: 1, 4>} : (tensor<16x4xf32>) -> tensor<4x16xf32>
      %16 = arith.constant 0.0 : f32
      %17 = tensor.empty() : tensor<3x16xf32>
      %18 = linalg.fill ins(%16 : f32) outs(%17 : tensor<3x16xf32>) -> tensor<3x16xf32>
      %19 = linalg.matmul ins(%13, %15 : tensor<3x4xf32>, tensor<4x16xf32>) outs(%18 : tensor<3x16xf32>) -> tensor<3x16xf32>
      %20 = "ftm.view"(%12) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %21 = "ftm.view"(%12) {offset = 4 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %22 = "ftm.view"(%12) {offset = 8 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %23 = "ftm.view"(%12) {offset = 12 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %24 = "ftm.view"(%19) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %25 = "ftm.view"(%19) {offset = 4 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %26 = "ftm.view"(%19) {offset = 8 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %27 = "ftm.view"(%19) {offset = 12 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %28 = tensor.empty() : tensor<3x4xf32>
      %30 = arith.constant 1.0 : f32
      %29:6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%14, %20, %21, %22, %23, %24, %25, %26, %27 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) outs(%28, %28, %28, %28, %28, %28 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %in5: f32, %in6: f32, %in7: f32, %in8: f32, %out0: f32, %out1: f32, %out2: f32, %out3: f32, %out4: f32, %out5: f32):
        %31 = arith.addf %in4, %in8 : f32
        %32 = arith.negf %31 : f32
        %33 = math.exp %32 : f32
        %34 = arith.addf %33, %30 : f32
        %35 = arith.divf %30, %34 : f32
        %36 = arith.addf %in2, %in6 : f32
        %37 = arith.negf %36 : f32
        %38 = math.exp %37 : f32
        %39 = arith.addf %38, %30 : f32
        %40 = arith.divf %30, %39 : f32
        %41 = arith.mulf %40, %in0 : f32
        %42 = arith.addf %in1, %in5 : f32
        %43 = arith.negf %42 : f32
        %44 = math.exp %43 : f32
        %45 = arith.addf %44, %30 : f32
        %46 = arith.divf %30, %45 : f32
        %47 = arith.addf %in3, %in7 : f32
        %48 = math.tanh %47 : f32
        %49 = arith.mulf %46, %48 : f32
        %50 = arith.addf %41, %49 : f32
        %51 = math.tanh %50 : f32
        %52 = arith.mulf %35, %51 : f32
        linalg.yield %52, %50, %46, %40, %48, %35 : f32, f32, f32, f32, f32, f32
      } -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
      %53 = "ftm.place"(%a11_0, %29#0, %k11) {start = 12 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, tensor<3x4xf32>, index) -> tensor<6x3x4xf32>
      %54 = "ftm.place"(%a11_1, %29#1, %k11) {start = 12 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, tensor<3x4xf32>, index) -> tensor<6x3x4xf32>
      scf.yield %53, %54 : tensor<6x3x4xf32>, tensor<6x3x4xf32>
    }
    return %11#0, %11#1 : tensor<6x3x4xf32>, tensor<6x3x4xf32>
  }
}
