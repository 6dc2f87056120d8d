// RUN: ftm-opt --inline-epilogue-inputs --machine m7032 --cores 2 %s | filecheck %s

// What is added to a product is scaled where it is added; what is a result as well stays a statement of its own.
// CHECK-LABEL: func.func @main(%arg0: {{.*}}, %arg1: {{.*}}, %arg2: {{.*}}, %arg3: {{.*}}, %arg4: f64)
// CHECK-NOT: linalg.generic
// CHECK: %[[PRODUCT:[0-9]+]] = linalg.matmul
// CHECK: %[[KEPT:[0-9]+]] = linalg.generic {{.*}} ins(%arg3 :
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}} ins(%arg2, %[[PRODUCT]], %[[KEPT]] :
// CHECK-NEXT: ^bb0(%[[SCALED:in[0-9]+]]: f32, %[[ELEMENT:in[0-9]+]]: f32, %[[OTHER:in[0-9]+]]: f32
// CHECK: %[[FIRST:[0-9]+]] = arith.mulf %[[SCALED]]
// CHECK: %[[SECOND:[0-9]+]] = arith.addf %[[FIRST]], %[[ELEMENT]]
// CHECK: arith.addf %[[SECOND]], %[[OTHER]]
// CHECK-NOT: linalg.generic

module {
  func.func @main(%arg0: tensor<48x64xf32>, %arg1: tensor<64x96xf32>, %arg2: tensor<48x96xf32>, %arg3: tensor<48x96xf32>, %arg4: f64) -> (tensor<48x96xf32>, tensor<48x96xf32>) attributes {ftm.inputs = ["f32", "f32", "f32", "f32"], ftm.outputs = ["f32", "f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = tensor.empty() : tensor<48x96xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<48x96xf32>) -> tensor<48x96xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<48x96xf32>) outs(%1 : tensor<48x96xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %4 = arith.truncf %arg4 : f64 to f32
      %5 = arith.mulf %in0, %4 : f32
      linalg.yield %5 : f32
    } -> tensor<48x96xf32>
    %6 = linalg.matmul ins(%arg0, %arg1 : tensor<48x64xf32>, tensor<64x96xf32>) outs(%2 : tensor<48x96xf32>) -> tensor<48x96xf32>
    %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg3 : tensor<48x96xf32>) outs(%1 : tensor<48x96xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %8 = arith.mulf %in0, %in0 : f32
      linalg.yield %8 : f32
    } -> tensor<48x96xf32>
    %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3, %6, %7 : tensor<48x96xf32>, tensor<48x96xf32>, tensor<48x96xf32>) outs(%1 : tensor<48x96xf32>) {
    ^bb0(%in0: f32, %in1: f32, %in2: f32, %out0: f32):
      %10 = arith.addf %in0, %in1 : f32
      %11 = arith.addf %10, %in2 : f32
      linalg.yield %11 : f32
    } -> tensor<48x96xf32>
    return %9, %7 : tensor<48x96xf32>, tensor<48x96xf32>
  }
}
