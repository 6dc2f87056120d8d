// RUN: ftm-opt --fuse-attention --machine m7032 --cores 2 %s | filecheck %s

// Product, softmax and product are one kernel; the scores are not among its results.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[KERNEL:[0-9]+]] = "ftm.kernel"() ({
// CHECK: linalg.batch_matmul
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: %[[MADE:[0-9]+]] = linalg.batch_matmul
// CHECK-NEXT: "ftm.yield"(%[[MADE]]) : (tensor<2x64x32xf32>)
// CHECK-NEXT: }) {kind = "attention"}
// CHECK-NEXT: return %[[KERNEL]]

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<2x64x32xf32>, %arg1: tensor<2x32x128xf32>, %arg2: tensor<2x128x32xf32>) -> tensor<2x64x32xf32> attributes {ftm.inputs = ["f32", "f32", "f32"], ftm.outputs = ["f32"]} {
    %4 = "ftm.kernel"() ({
      %0 = arith.constant 0.0 : f32
      %1 = tensor.empty() : tensor<2x64x128xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2x64x128xf32>) -> tensor<2x64x128xf32>
      %3 = linalg.batch_matmul ins(%arg0, %arg1 : tensor<2x64x32xf32>, tensor<2x32x128xf32>) outs(%2 : tensor<2x64x128xf32>) -> tensor<2x64x128xf32>
      "ftm.yield"(%3) : (tensor<2x64x128xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x64x128xf32>)
    %22 = "ftm.kernel"() ({
      %5 = arith.constant 0xFF800000 : f32
      %6 = tensor.empty() : tensor<2x64xf32>
      %7 = linalg.fill ins(%5 : f32) outs(%6 : tensor<2x64xf32>) -> tensor<2x64xf32>
      %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%4 : tensor<2x64x128xf32>) outs(%7 : tensor<2x64xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %9 = arith.maximumf %out0, %in0 : f32
        linalg.yield %9 : f32
      } -> tensor<2x64xf32>
      %10 = arith.constant 0.0 : f32
      %11 = tensor.empty() : tensor<2x64xf32>
      %12 = linalg.fill ins(%10 : f32) outs(%11 : tensor<2x64xf32>) -> tensor<2x64xf32>
      %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%4, %8 : tensor<2x64x128xf32>, tensor<2x64xf32>) outs(%12 : tensor<2x64xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %14 = arith.subf %in0, %in1 : f32
        %15 = math.exp %14 : f32
        %16 = arith.addf %out0, %15 : f32
        linalg.yield %16 : f32
      } -> tensor<2x64xf32>
      %17 = tensor.empty() : tensor<2x64x128xf32>
      %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4, %8, %13 : tensor<2x64x128xf32>, tensor<2x64xf32>, tensor<2x64xf32>) outs(%17 : tensor<2x64x128xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %19 = arith.subf %in0, %in1 : f32
        %20 = math.exp %19 : f32
        %21 = arith.divf %20, %in2 : f32
        linalg.yield %21 : f32
      } -> tensor<2x64x128xf32>
      "ftm.yield"(%18) : (tensor<2x64x128xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<2x64x128xf32>)
    %27 = "ftm.kernel"() ({
      %23 = arith.constant 0.0 : f32
      %24 = tensor.empty() : tensor<2x64x32xf32>
      %25 = linalg.fill ins(%23 : f32) outs(%24 : tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
      %26 = linalg.batch_matmul ins(%22, %arg2 : tensor<2x64x128xf32>, tensor<2x128x32xf32>) outs(%25 : tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
      "ftm.yield"(%26) : (tensor<2x64x32xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<2x64x32xf32>)
    return %27 : tensor<2x64x32xf32>
  }
}
