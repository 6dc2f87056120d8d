module attributes {ftm.stage = "split-pad"} {
  func.func @main(%arg0: tensor<5x3x16xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<16x4xf32>) -> (tensor<6x3x4xf32>, tensor<6x3x4xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32"]} {
    %0 = tensor.empty() : tensor<6x3x4xf32>
    %1 = "ftm.update"(%0, %arg1) {offset = 0 : i64, strides = array<i64: 4, 1>} : (tensor<6x3x4xf32>, tensor<3x4xf32>) -> tensor<6x3x4xf32>
    %2 = tensor.empty() : tensor<6x3x4xf32>
    %3 = "ftm.update"(%2, %arg2) {offset = 0 : i64, strides = array<i64: 4, 1>} : (tensor<6x3x4xf32>, tensor<3x4xf32>) -> tensor<6x3x4xf32>
    %4 = tensor.empty() : tensor<3x16xf32>
    %5 = tensor.empty() : tensor<5x3x16xf32>
    %6 = arith.constant 0 : index
    %7 = arith.constant 5 : index
    %8 = arith.constant 1 : index
    %9:3 = scf.for %k9 = %6 to %7 step %8 iter_args(%a9_0 = %1, %a9_1 = %3, %a9_2 = %5) -> (tensor<6x3x4xf32>, tensor<6x3x4xf32>, tensor<5x3x16xf32>) {
      %10 = "ftm.window"(%arg0, %k9) {start = 0 : i64, step = 48 : i64} : (tensor<5x3x16xf32>, index) -> tensor<3x16xf32>
      %11 = "ftm.window"(%a9_0, %k9) {start = 0 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, index) -> tensor<3x4xf32>
      %12 = "ftm.window"(%a9_1, %k9) {start = 0 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, index) -> tensor<3x4xf32>
      %13 = "ftm.view"(%arg3) {offset = 0 : i64, strides = array<i64: 1, 4>} : (tensor<16x4xf32>) -> tensor<4x16xf32>
      %14 = arith.constant 0.0 : f32
      %15 = tensor.empty() : tensor<3x16xf32>
      %16 = linalg.fill ins(%14 : f32) outs(%15 : tensor<3x16xf32>) -> tensor<3x16xf32>
      %17 = linalg.matmul ins(%11, %13 : tensor<3x4xf32>, tensor<4x16xf32>) outs(%16 : tensor<3x16xf32>) -> tensor<3x16xf32>
      %18 = "ftm.view"(%10) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %19 = "ftm.view"(%10) {offset = 4 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %20 = "ftm.view"(%10) {offset = 8 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %21 = "ftm.view"(%10) {offset = 12 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %22 = "ftm.view"(%17) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %23 = "ftm.view"(%17) {offset = 4 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %24 = "ftm.view"(%17) {offset = 8 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %25 = "ftm.view"(%17) {offset = 12 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
      %26 = tensor.empty() : tensor<3x4xf32>
      %28 = arith.constant 1.0 : f32
      %27:6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%12, %18, %19, %20, %21, %22, %23, %24, %25 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) outs(%26, %26, %26, %26, %26, %26 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %in5: f32, %in6: f32, %in7: f32, %in8: f32, %out0: f32, %out1: f32, %out2: f32, %out3: f32, %out4: f32, %out5: f32):
        %29 = arith.addf %in4, %in8 : f32
        %30 = arith.negf %29 : f32
        %31 = math.exp %30 : f32
        %32 = arith.addf %31, %28 : f32
        %33 = arith.divf %28, %32 : f32
        %34 = arith.addf %in2, %in6 : f32
        %35 = arith.negf %34 : f32
        %36 = math.exp %35 : f32
        %37 = arith.addf %36, %28 : f32
        %38 = arith.divf %28, %37 : f32
        %39 = arith.mulf %38, %in0 : f32
        %40 = arith.addf %in1, %in5 : f32
        %41 = arith.negf %40 : f32
        %42 = math.exp %41 : f32
        %43 = arith.addf %42, %28 : f32
        %44 = arith.divf %28, %43 : f32
        %45 = arith.addf %in3, %in7 : f32
        %46 = math.tanh %45 : f32
        %47 = arith.mulf %44, %46 : f32
        %48 = arith.addf %39, %47 : f32
        %49 = math.tanh %48 : f32
        %50 = arith.mulf %33, %49 : f32
        linalg.yield %50, %48, %44, %38, %46, %33 : f32, f32, f32, f32, f32, f32
      } -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
      %51 = "ftm.update"(%4, %27#2) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>, tensor<3x4xf32>) -> tensor<3x16xf32>
      %52 = "ftm.update"(%51, %27#3) {offset = 4 : i64, strides = array<i64: 16, 1>, joined} : (tensor<3x16xf32>, tensor<3x4xf32>) -> tensor<3x16xf32>
      %53 = "ftm.update"(%52, %27#4) {offset = 8 : i64, strides = array<i64: 16, 1>, joined} : (tensor<3x16xf32>, tensor<3x4xf32>) -> tensor<3x16xf32>
      %54 = "ftm.update"(%53, %27#5) {offset = 12 : i64, strides = array<i64: 16, 1>, joined} : (tensor<3x16xf32>, tensor<3x4xf32>) -> tensor<3x16xf32>
      %55 = "ftm.place"(%a9_0, %27#0, %k9) {start = 12 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, tensor<3x4xf32>, index) -> tensor<6x3x4xf32>
      %56 = "ftm.place"(%a9_1, %27#1, %k9) {start = 12 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, tensor<3x4xf32>, index) -> tensor<6x3x4xf32>
      %57 = "ftm.place"(%a9_2, %54, %k9) {start = 0 : i64, step = 48 : i64} : (tensor<5x3x16xf32>, tensor<3x16xf32>, index) -> tensor<5x3x16xf32>
      scf.yield %55, %56, %57 : tensor<6x3x4xf32>, tensor<6x3x4xf32>, tensor<5x3x16xf32>
    }
    return %9#0, %9#1 : tensor<6x3x4xf32>, tensor<6x3x4xf32>
  }
}
