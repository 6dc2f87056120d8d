// RUN: ftm-opt --transpose-on-chip --machine m7032 --cores 2 %s | filecheck %s

// A copy of columns to rows is turned on chip.
// CHECK-LABEL: func.func @main
// CHECK: linalg.copy
// CHECK: {kind = "transpose"
// CHECK-NOT: {kind = "loop-nest"

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<64x96xf32>) -> tensor<96x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1, 96>} : (tensor<64x96xf32>) -> tensor<96x64xf32>
      %1 = tensor.empty() : tensor<96x64xf32>
      %2 = linalg.copy ins(%0 : tensor<96x64xf32>) outs(%1 : tensor<96x64xf32>) -> tensor<96x64xf32>
      "ftm.yield"(%2) : (tensor<96x64xf32>) -> ()
    }) {kind = "loop-nest", one_core} : () -> (tensor<96x64xf32>)
    return %3 : tensor<96x64xf32>
  }
}
