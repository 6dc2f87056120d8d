// RUN: ftm-opt --defer-input-overwrites --machine m7032 --cores 2 %s | filecheck %s

// The gather can fault, and the negated input may take over the input's memory: it waits until nothing can fault any more.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract
// CHECK: {kind = "gather-scatter", faults}
// CHECK: arith.negf
// CHECK: {kind = "loop-nest"
// CHECK-NOT: faults
// CHECK: return

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<16x32xf32>, %arg1: tensor<6xi64>) -> (tensor<16x32xf32>, tensor<6x32xf32>) attributes {ftm.inputs = ["f32", "i64"], ftm.outputs = ["f32", "f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<16x32xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<16x32xf32>) outs(%0 : tensor<16x32xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %2 = arith.negf %in0 : f32
        linalg.yield %2 : f32
      } -> tensor<16x32xf32>
      "ftm.yield"(%1) : (tensor<16x32xf32>) -> ()
    }) {kind = "loop-nest", one_core} : () -> (tensor<16x32xf32>)
    %14 = "ftm.kernel"() ({
      %4 = tensor.empty() : tensor<6x32xf32>
      %6 = arith.constant 32 : i64
      %7 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1>} : (tensor<16x32xf32>) -> tensor<512xf32>
      %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<6xi64>) outs(%4 : tensor<6x32xf32>) {
      ^bb0(%in0: i64, %out0: f32):
        %8 = arith.muli %in0, %6 : i64
        %9 = linalg.index 1 : index
        %10 = arith.index_cast %9 : index to i64
        %11 = arith.addi %8, %10 : i64
        %12 = arith.index_cast %11 : i64 to index
        %13 = tensor.extract %7[%12] : tensor<512xf32>
        linalg.yield %13 : f32
      } -> tensor<6x32xf32>
      "ftm.yield"(%5) : (tensor<6x32xf32>) -> ()
    }) {kind = "gather-scatter"} : () -> (tensor<6x32xf32>)
    return %3, %14 : tensor<16x32xf32>, tensor<6x32xf32>
  }
}
