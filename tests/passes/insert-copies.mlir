// RUN: ftm-opt --insert-copies --machine m7032 --cores 2 %s | filecheck %s

// What nobody needs is gone. The update writes over a copy, not over the input, and what it writes is computed by an operation of its own.
// CHECK-LABEL: func.func @main
// CHECK-NOT: math.exp
// CHECK: %[[BASE:[0-9]+]] = linalg.copy ins(%arg0 : tensor<8xf32>)
// CHECK: %[[PART:[0-9]+]] = linalg.copy ins(%arg1 : tensor<4xf32>)
// CHECK: %[[MADE:[0-9]+]] = "ftm.update"(%[[BASE]], %[[PART]]) {offset = 2 : i64
// CHECK-NEXT: return %[[MADE]]

module {
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<4xf32>) -> tensor<8xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<4xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%arg1 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = math.exp %in0 : f32
      linalg.yield %2 : f32
    } -> tensor<4xf32>
    %3 = "ftm.update"(%arg0, %arg1) {offset = 2 : i64, strides = array<i64: 1>} : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
