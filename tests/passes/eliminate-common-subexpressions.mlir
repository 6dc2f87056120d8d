// RUN: ftm-opt --eliminate-common-subexpressions --machine host --cores 1 %s | filecheck %s

// Softmax computes its exponentials once: the sum and the quotient read them.
// CHECK-LABEL: func.func @main
// CHECK: arith.maximumf
// CHECK: %[[EXP:[0-9]+]] = linalg.generic
// CHECK: math.exp
// CHECK: %[[SUM:[0-9]+]] = linalg.generic {{.*}} ins(%[[EXP]] : tensor<64x300xf32>)
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} ins(%[[EXP]], %[[SUM]] : tensor<64x300xf32>, tensor<64xf32>)
// CHECK-NOT: math.exp
// CHECK: arith.divf

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<64x300xf32>) -> tensor<64x300xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %17 = "ftm.kernel"() ({
      %0 = arith.constant 0xFF800000 : f32
      %1 = tensor.empty() : tensor<64xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64xf32>) -> tensor<64xf32>
      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<64x300xf32>) outs(%2 : tensor<64xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %4 = arith.maximumf %out0, %in0 : f32
        linalg.yield %4 : f32
      } -> tensor<64xf32> loc("softmax#0")
      %5 = arith.constant 0.0 : f32
      %6 = tensor.empty() : tensor<64xf32>
      %7 = linalg.fill ins(%5 : f32) outs(%6 : tensor<64xf32>) -> tensor<64xf32>
      %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%arg0, %3 : tensor<64x300xf32>, tensor<64xf32>) outs(%7 : tensor<64xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %9 = arith.subf %in0, %in1 : f32
        %10 = math.exp %9 : f32
        %11 = arith.addf %out0, %10 : f32
        linalg.yield %11 : f32
      } -> tensor<64xf32> loc("softmax#0")
      %12 = tensor.empty() : tensor<64x300xf32>
      %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3, %8 : tensor<64x300xf32>, tensor<64xf32>, tensor<64xf32>) outs(%12 : tensor<64x300xf32>) {
      ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
        %14 = arith.subf %in0, %in1 : f32
        %15 = math.exp %14 : f32
        %16 = arith.divf %15, %in2 : f32
        linalg.yield %16 : f32
      } -> tensor<64x300xf32> loc("softmax#0")
      "ftm.yield"(%13) : (tensor<64x300xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<64x300xf32>)
    return %17 : tensor<64x300xf32>
  }
}
