// RUN: ftm-opt --fuse-ops --machine m7032 --cores 2 %s | filecheck %s

// Two elementwise operations of one shape are one kernel, with one result: what lies between them is not yielded.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[KERNEL:[0-9]+]] = "ftm.kernel"() ({
// CHECK: %[[EXP:[0-9]+]] = linalg.generic
// CHECK: math.exp
// CHECK: %[[NEG:[0-9]+]] = linalg.generic
// CHECK-SAME: ins(%[[EXP]] :
// CHECK: arith.negf
// CHECK-NOT: "ftm.kernel"
// CHECK: "ftm.yield"(%[[NEG]]) :
// CHECK-NEXT: }) {kind = "loop-nest"
// CHECK-NEXT: return %[[KERNEL]]

module {
  func.func @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<4x8xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = math.exp %in0 : f32
      linalg.yield %2 : f32
    } -> tensor<4x8xf32>
    %3 = tensor.empty() : tensor<4x8xf32>
    %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%3 : tensor<4x8xf32>) {
    ^bb0(%in1: f32, %out1: f32):
      %5 = arith.negf %in1 : f32
      linalg.yield %5 : f32
    } -> tensor<4x8xf32>
    return %4 : tensor<4x8xf32>
  }
}
