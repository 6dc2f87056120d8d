// RUN: ftm-opt --rematerialize-rows --machine m7032 --cores 8 %s | filecheck %s
// RUN: ftm-opt --rematerialize-rows --machine host --cores 2 %s | filecheck %s --check-prefix KEPT

// Softmax of rows that take 0.92 of AM with their results: the sum and the quotient compute the exponentials. On the host, such a row stays in the caches.
// CHECK-LABEL: func.func @main
// CHECK: arith.maximumf
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%arg0, {{%[0-9]+}} :
// CHECK: math.exp
// CHECK-NEXT: arith.addf
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK-NEXT: arith.divf
// KEPT-LABEL: func.func @main
// KEPT: math.exp
// KEPT-NEXT: linalg.yield
// KEPT: arith.divf
// KEPT-NOT: math.exp

module {
  func.func @main(%arg0: tensor<64x60000xf32>) -> tensor<64x60000xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0xFF800000 : f32
    %1 = tensor.empty() : tensor<64xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64xf32>) -> tensor<64xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<64x60000xf32>) outs(%2 : tensor<64xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %4 = arith.maximumf %out0, %in0 : f32
      linalg.yield %4 : f32
    } -> tensor<64xf32>
    %5 = tensor.empty() : tensor<64x60000xf32>
    %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3 : tensor<64x60000xf32>, tensor<64xf32>) outs(%5 : tensor<64x60000xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %7 = arith.subf %in0, %in1 : f32
      %8 = math.exp %7 : f32
      linalg.yield %8 : f32
    } -> tensor<64x60000xf32>
    %9 = arith.constant 0.0 : f32
    %10 = tensor.empty() : tensor<64xf32>
    %11 = linalg.fill ins(%9 : f32) outs(%10 : tensor<64xf32>) -> tensor<64xf32>
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%6 : tensor<64x60000xf32>) outs(%11 : tensor<64xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %13 = arith.addf %out0, %in0 : f32
      linalg.yield %13 : f32
    } -> tensor<64xf32>
    %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%12, %6 : tensor<64xf32>, tensor<64x60000xf32>) outs(%5 : tensor<64x60000xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %15 = arith.divf %in1, %in0 : f32
      linalg.yield %15 : f32
    } -> tensor<64x60000xf32>
    return %14 : tensor<64x60000xf32>
  }
}
