// RUN: ftm-opt --fuse-attention-backward --machine m7032 --cores 2 %s | filecheck %s

// Both products of the scores, the softmax with its gradient, and the gradients of queries, keys and
// values are one kernel. The tensors with an element for each score are not among its results.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[KERNEL:[0-9]+]]:3 = "ftm.kernel"() ({
// CHECK: math.exp
// CHECK: "ftm.yield"
// CHECK-SAME: (tensor<2x128x32xf32>, tensor<2x64x32xf32>, tensor<2x128x32xf32>)
// CHECK-NEXT: }) {kind = "attention-backward"}
// CHECK-NEXT: return

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<1x2x64x32xf32>, %arg1: tensor<1x2x128x32xf32>, %arg2: tensor<1x2x128x32xf32>, %arg3: tensor<2x64x32xf32>, %arg4: f64, %arg5: f64) -> (tensor<2x64x32xf32>, tensor<2x128x32xf32>, tensor<2x128x32xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32", "f32"]} {
    %4 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<1x2x64x32xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x2x64x32xf32>) outs(%0 : tensor<1x2x64x32xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %2 = arith.truncf %arg4 : f64 to f32
        %3 = arith.mulf %in0, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<1x2x64x32xf32> loc("mul#0")
      "ftm.yield"(%1) : (tensor<1x2x64x32xf32>) -> ()
    }) {kind = "loop-nest", one_core} : () -> (tensor<1x2x64x32xf32>)
    %11 = "ftm.kernel"() ({
      %5 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 2048, 32, 1>} : (tensor<1x2x64x32xf32>) -> tensor<2x64x32xf32>
      %6 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 4096, 1, 32>} : (tensor<1x2x128x32xf32>) -> tensor<2x32x128xf32>
      %7 = arith.constant 0.0 : f32
      %8 = tensor.empty() : tensor<2x64x128xf32>
      %9 = linalg.fill ins(%7 : f32) outs(%8 : tensor<2x64x128xf32>) -> tensor<2x64x128xf32>
      %10 = linalg.batch_matmul ins(%5, %6 : tensor<2x64x32xf32>, tensor<2x32x128xf32>) outs(%9 : tensor<2x64x128xf32>) -> tensor<2x64x128xf32> loc("bmm#1")
      "ftm.yield"(%10) : (tensor<2x64x128xf32>) -> ()
    }) {kind = "contraction", schedule = "depth=2 m=0:64:64:1 n=0:64:64:2 k=0:32:32:1 m_outer=1 keep_outer=1 column_groups=2 b_layout=transposed c_buffers=2 cycles=8834"} : () -> (tensor<2x64x128xf32>)
    %17 = "ftm.kernel"() ({
      %12 = "ftm.view"(%arg2) {offset = 0 : i64, strides = array<i64: 4096, 1, 32>} : (tensor<1x2x128x32xf32>) -> tensor<2x32x128xf32>
      %13 = arith.constant 0.0 : f32
      %14 = tensor.empty() : tensor<2x64x128xf32>
      %15 = linalg.fill ins(%13 : f32) outs(%14 : tensor<2x64x128xf32>) -> tensor<2x64x128xf32>
      %16 = linalg.batch_matmul ins(%arg3, %12 : tensor<2x64x32xf32>, tensor<2x32x128xf32>) outs(%15 : tensor<2x64x128xf32>) -> tensor<2x64x128xf32> loc("bmm#4")
      "ftm.yield"(%16) : (tensor<2x64x128xf32>) -> ()
    }) {kind = "contraction", schedule = "depth=2 m=0:64:64:1 n=0:64:64:2 k=0:32:32:1 m_outer=1 keep_outer=1 column_groups=2 b_layout=transposed c_buffers=2 cycles=8834"} : () -> (tensor<2x64x128xf32>)
    %43:2 = "ftm.kernel"() ({
      %18 = arith.constant 0xFF800000 : f32
      %19 = tensor.empty() : tensor<1x2x64xf32>
      %20 = linalg.fill ins(%18 : f32) outs(%19 : tensor<1x2x64xf32>) -> tensor<1x2x64xf32>
      %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%11 : tensor<2x64x128xf32>) outs(%20 : tensor<1x2x64xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %22 = arith.maximumf %out0, %in0 : f32
        linalg.yield %22 : f32
      } -> tensor<1x2x64xf32> loc("softmax#2")
      %23 = arith.constant 0.0 : f32
      %24 = tensor.empty() : tensor<1x2x64xf32>
      %25 = linalg.fill ins(%23 : f32) outs(%24 : tensor<1x2x64xf32>) -> tensor<1x2x64xf32>
      %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%11, %21 : tensor<2x64x128xf32>, tensor<1x2x64xf32>) outs(%25 : tensor<1x2x64xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %27 = arith.subf %in0, %in1 : f32
        %28 = math.exp %27 : f32
        %29 = arith.addf %out0, %28 : f32
        linalg.yield %29 : f32
      } -> tensor<1x2x64xf32> loc("softmax#2")
      %30 = tensor.empty() : tensor<1x2x64x128xf32>
      %31 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11, %21, %26 : tensor<2x64x128xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>) outs(%30 : tensor<1x2x64x128xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %32 = arith.subf %in0, %in1 : f32
        %33 = math.exp %32 : f32
        %34 = arith.divf %33, %in2 : f32
        linalg.yield %34 : f32
      } -> tensor<1x2x64x128xf32> loc("softmax#2")
      %35 = tensor.empty() : tensor<1x2x64xf32>
      %36 = linalg.fill ins(%23 : f32) outs(%35 : tensor<1x2x64xf32>) -> tensor<1x2x64xf32>
      %37 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%17, %31 : tensor<2x64x128xf32>, tensor<1x2x64x128xf32>) outs(%36 : tensor<1x2x64xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %38 = arith.mulf %in0, %in1 : f32
        %39 = arith.addf %out0, %38 : f32
        linalg.yield %39 : f32
      } -> tensor<1x2x64xf32> loc("softmax_backward_data#5")
      %40 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17, %31, %37 : tensor<2x64x128xf32>, tensor<1x2x64x128xf32>, tensor<1x2x64xf32>) outs(%30 : tensor<1x2x64x128xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %41 = arith.subf %in0, %in2 : f32
        %42 = arith.mulf %in1, %41 : f32
        linalg.yield %42 : f32
      } -> tensor<1x2x64x128xf32> loc("softmax_backward_data#5")
      "ftm.yield"(%31, %40) : (tensor<1x2x64x128xf32>, tensor<1x2x64x128xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<1x2x64x128xf32>, tensor<1x2x64x128xf32>)
    %49 = "ftm.kernel"() ({
      %44 = "ftm.view"(%43#0) {offset = 0 : i64, strides = array<i64: 8192, 1, 128>} : (tensor<1x2x64x128xf32>) -> tensor<2x128x64xf32>
      %45 = arith.constant 0.0 : f32
      %46 = tensor.empty() : tensor<2x128x32xf32>
      %47 = linalg.fill ins(%45 : f32) outs(%46 : tensor<2x128x32xf32>) -> tensor<2x128x32xf32>
      %48 = linalg.batch_matmul ins(%44, %arg3 : tensor<2x128x64xf32>, tensor<2x64x32xf32>) outs(%47 : tensor<2x128x32xf32>) -> tensor<2x128x32xf32> loc("bmm#3")
      "ftm.yield"(%48) : (tensor<2x128x32xf32>) -> ()
    }) {kind = "contraction", schedule = "depth=2 m=0:48:48:3 n=0:32:32:1 k=0:32:32:2 m_outer=1 keep_outer=1 chunks=3 row_groups=2 trans_a=1 c_buffers=2 cycles=10777"} : () -> (tensor<2x128x32xf32>)
    %60 = "ftm.kernel"() ({
      %50 = "ftm.view"(%43#1) {offset = 0 : i64, strides = array<i64: 8192, 128, 1>} : (tensor<1x2x64x128xf32>) -> tensor<2x64x128xf32>
      %51 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 4096, 32, 1>} : (tensor<1x2x128x32xf32>) -> tensor<2x128x32xf32>
      %52 = arith.constant 0.0 : f32
      %53 = tensor.empty() : tensor<2x64x32xf32>
      %54 = linalg.fill ins(%52 : f32) outs(%53 : tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
      %55 = linalg.batch_matmul ins(%50, %51 : tensor<2x64x128xf32>, tensor<2x128x32xf32>) outs(%54 : tensor<2x64x32xf32>) -> tensor<2x64x32xf32> loc("bmm#6")
      %56 = tensor.empty() : tensor<2x64x32xf32>
      %57 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%55 : tensor<2x64x32xf32>) outs(%56 : tensor<2x64x32xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %58 = arith.truncf %arg5 : f64 to f32
        %59 = arith.mulf %in0, %58 : f32
        linalg.yield %59 : f32
      } -> tensor<2x64x32xf32> loc("mul#7")
      "ftm.yield"(%57) : (tensor<2x64x32xf32>) -> ()
    }) {kind = "contraction", schedule = "depth=2 m=0:36:36:2 n=0:32:32:1 k=0:32:32:4 m_outer=1 keep_outer=1 chunks=2 row_groups=2 c_buffers=2 cycles=9533"} : () -> (tensor<2x64x32xf32>)
    %67 = "ftm.kernel"() ({
      %61 = "ftm.view"(%43#1) {offset = 0 : i64, strides = array<i64: 8192, 1, 128>} : (tensor<1x2x64x128xf32>) -> tensor<2x128x64xf32>
      %62 = "ftm.view"(%4) {offset = 0 : i64, strides = array<i64: 2048, 32, 1>} : (tensor<1x2x64x32xf32>) -> tensor<2x64x32xf32>
      %63 = arith.constant 0.0 : f32
      %64 = tensor.empty() : tensor<2x128x32xf32>
      %65 = linalg.fill ins(%63 : f32) outs(%64 : tensor<2x128x32xf32>) -> tensor<2x128x32xf32>
      %66 = linalg.batch_matmul ins(%61, %62 : tensor<2x128x64xf32>, tensor<2x64x32xf32>) outs(%65 : tensor<2x128x32xf32>) -> tensor<2x128x32xf32> loc("bmm#8")
      "ftm.yield"(%66) : (tensor<2x128x32xf32>) -> ()
    }) {kind = "contraction", schedule = "depth=2 m=0:48:48:3 n=0:32:32:1 k=0:32:32:2 m_outer=1 keep_outer=1 chunks=3 row_groups=2 trans_a=1 c_buffers=2 cycles=10777"} : () -> (tensor<2x128x32xf32>)
    return %60, %67, %49 : tensor<2x64x32xf32>, tensor<2x128x32xf32>, tensor<2x128x32xf32>
  }
}
