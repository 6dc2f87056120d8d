// RUN: ftm-opt --rematerialize-pool-inputs --machine m7032 --cores 2 %s | filecheck %s

// The maximum of windows computes what is scaled and rectified from what is scaled, which a sum reads as well; around it, where a border
// of zeros lies around ones, stands the number that the image was padded with.
// CHECK-LABEL: func.func @main
// CHECK: %[[ONES:[0-9]+]] = linalg.copy {{.*}} -> tensor<112x112xf32>
// CHECK-NOT: "ftm.update"
// CHECK-DAG: "ftm.border"(%[[ONES]]) {low = array<i64: 1, 1>} : (tensor<112x112xf32>) -> tensor<113x113xf32>
// CHECK-DAG: "ftm.border"(%arg0) {low = array<i64: 0, 0, 1, 1>} : (tensor<2x32x112x112xf32>) -> tensor<2x32x113x113xf32>
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: arith.cmpf oeq
// CHECK: arith.mulf
// CHECK-NEXT: arith.maximumf
// CHECK: arith.select
// CHECK: return

module {
  func.func @main(%arg0: tensor<2x32x112x112xf32>, %arg1: tensor<32xf32>) -> tensor<64x56x56xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0.0 : f32
    %1 = arith.constant 0xFF800000 : f32
    %2 = tensor.empty() : tensor<2x32x112x112xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<2x32x112x112xf32>, tensor<32xf32>) outs(%2 : tensor<2x32x112x112xf32>) {
    ^bb0(%in0: f32, %in1: f32, %out0: f32):
      %4 = arith.mulf %in0, %in1 : f32
      %5 = arith.maximumf %4, %0 : f32
      linalg.yield %5 : f32
    } -> tensor<2x32x112x112xf32>
    %6 = tensor.empty() : tensor<64x113x113xf32>
    %7 = linalg.fill ins(%1 : f32) outs(%6 : tensor<64x113x113xf32>) -> tensor<64x113x113xf32>
    %14 = "ftm.view"(%3) {offset = 0 : i64, strides = array<i64: 12544, 112, 1>} : (tensor<2x32x112x112xf32>) -> tensor<64x112x112xf32>
    %8 = "ftm.update"(%7, %14) {offset = 114 : i64, strides = array<i64: 12769, 113, 1>} : (tensor<64x113x113xf32>, tensor<64x112x112xf32>) -> tensor<64x113x113xf32>
    %9 = "ftm.view"(%8) {offset = 0 : i64, strides = array<i64: 12769, 226, 2, 113, 1>} : (tensor<64x113x113xf32>) -> tensor<64x56x56x3x3xf32>
    %10 = tensor.empty() : tensor<64x56x56xf32>
    %11 = linalg.fill ins(%1 : f32) outs(%10 : tensor<64x56x56xf32>) -> tensor<64x56x56xf32>
    %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%9 : tensor<64x56x56x3x3xf32>) outs(%11 : tensor<64x56x56xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %13 = arith.maximumf %out0, %in0 : f32
      linalg.yield %13 : f32
    } -> tensor<64x56x56xf32>
    return %12 : tensor<64x56x56xf32>
  }
}
