module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<5x3x16xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<16x4xf32>) -> (tensor<6x3x4xf32>, tensor<6x3x4xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32"]} {
    %2 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<3x4xf32>
      %1 = linalg.copy ins(%arg1 : tensor<3x4xf32>) outs(%0 : tensor<3x4xf32>) -> tensor<3x4xf32>
      "ftm.yield"(%1) : (tensor<3x4xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<3x4xf32>)
    %3 = tensor.empty() : tensor<6x3x4xf32>
    %4 = "ftm.update"(%3, %2) {offset = 0 : i64, strides = array<i64: 4, 1>} : (tensor<6x3x4xf32>, tensor<3x4xf32>) -> tensor<6x3x4xf32>
    %7 = "ftm.kernel"() ({
      %5 = tensor.empty() : tensor<3x4xf32>
      %6 = linalg.copy ins(%arg2 : tensor<3x4xf32>) outs(%5 : tensor<3x4xf32>) -> tensor<3x4xf32>
      "ftm.yield"(%6) : (tensor<3x4xf32>) -> ()
    }) {kind = "nest", one_core} : () -> (tensor<3x4xf32>)
    %8 = tensor.empty() : tensor<6x3x4xf32>
    %9 = "ftm.update"(%8, %7) {offset = 0 : i64, strides = array<i64: 4, 1>} : (tensor<6x3x4xf32>, tensor<3x4xf32>) -> tensor<6x3x4xf32>
    %10 = arith.constant 0 : index
    %11 = arith.constant 5 : index
    %12 = arith.constant 1 : index
    %13:2 = scf.for %k13 = %10 to %11 step %12 iter_args(%a13_0 = %4, %a13_1 = %9) -> (tensor<6x3x4xf32>, tensor<6x3x4xf32>) {
      %14 = "ftm.window"(%arg0, %k13) {start = 0 : i64, step = 48 : i64} : (tensor<5x3x16xf32>, index) -> tensor<3x16xf32>
      %15 = "ftm.window"(%a13_0, %k13) {start = 0 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, index) -> tensor<3x4xf32>
      %16 = "ftm.window"(%a13_1, %k13) {start = 0 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, index) -> tensor<3x4xf32>
      %22 = "ftm.kernel"() ({
        %17 = "ftm.view"(%arg3) {offset = 0 : i64, strides = array<i64: 1, 4>} : (tensor<16x4xf32>) -> tensor<4x16xf32>
        %18 = arith.constant 0.0 : f32
        %19 = tensor.empty() : tensor<3x16xf32>
        %20 = linalg.fill ins(%18 : f32) outs(%19 : tensor<3x16xf32>) -> tensor<3x16xf32>
        %21 = linalg.matmul ins(%15, %17 : tensor<3x4xf32>, tensor<4x16xf32>) outs(%20 : tensor<3x16xf32>) -> tensor<3x16xf32>
        "ftm.yield"(%21) : (tensor<3x16xf32>) -> ()
      }) {kind = "contraction", one_core} : () -> (tensor<3x16xf32>)
      %56:2 = "ftm.kernel"() ({
        %23 = "ftm.view"(%14) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %24 = "ftm.view"(%14) {offset = 4 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %25 = "ftm.view"(%14) {offset = 8 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %26 = "ftm.view"(%14) {offset = 12 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %27 = "ftm.view"(%22) {offset = 0 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %28 = "ftm.view"(%22) {offset = 4 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %29 = "ftm.view"(%22) {offset = 8 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %30 = "ftm.view"(%22) {offset = 12 : i64, strides = array<i64: 16, 1>} : (tensor<3x16xf32>) -> tensor<3x4xf32>
        %31 = tensor.empty() : tensor<3x4xf32>
        %33 = arith.constant 1.0 : f32
        %32:6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%16, %23, %24, %25, %26, %27, %28, %29, %30 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) outs(%31, %31, %31, %31, %31, %31 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
        ^bb0(%in0: f32, %in1: f32, %in2: f32, %in3: f32, %in4: f32, %in5: f32, %in6: f32, %in7: f32, %in8: f32, %out0: f32, %out1: f32, %out2: f32, %out3: f32, %out4: f32, %out5: f32):
          %34 = arith.addf %in4, %in8 : f32
          %35 = arith.negf %34 : f32
          %36 = math.exp %35 : f32
          %37 = arith.addf %36, %33 : f32
          %38 = arith.divf %33, %37 : f32
          %39 = arith.addf %in2, %in6 : f32
          %40 = arith.negf %39 : f32
          %41 = math.exp %40 : f32
          %42 = arith.addf %41, %33 : f32
          %43 = arith.divf %33, %42 : f32
          %44 = arith.mulf %43, %in0 : f32
          %45 = arith.addf %in1, %in5 : f32
          %46 = arith.negf %45 : f32
          %47 = math.exp %46 : f32
          %48 = arith.addf %47, %33 : f32
          %49 = arith.divf %33, %48 : f32
          %50 = arith.addf %in3, %in7 : f32
          %51 = math.tanh %50 : f32
          %52 = arith.mulf %49, %51 : f32
          %53 = arith.addf %44, %52 : f32
          %54 = math.tanh %53 : f32
          %55 = arith.mulf %38, %54 : f32
          linalg.yield %55, %53, %49, %43, %51, %38 : f32, f32, f32, f32, f32, f32
        } -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
        "ftm.yield"(%32#0, %32#1) : (tensor<3x4xf32>, tensor<3x4xf32>) -> ()
      }) {kind = "nest", one_core} : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
      %57 = "ftm.place"(%a13_0, %56#0, %k13) {start = 12 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, tensor<3x4xf32>, index) -> tensor<6x3x4xf32>
      %58 = "ftm.place"(%a13_1, %56#1, %k13) {start = 12 : i64, step = 12 : i64} : (tensor<6x3x4xf32>, tensor<3x4xf32>, index) -> tensor<6x3x4xf32>
      scf.yield %57, %58 : tensor<6x3x4xf32>, tensor<6x3x4xf32>
    }
    return %13#0, %13#1 : tensor<6x3x4xf32>, tensor<6x3x4xf32>
  }
}
