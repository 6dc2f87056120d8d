// RUN: ftm-opt --fold-interior-pad-into-store --machine m7032 --cores 2 %s | filecheck %s

// Elements two apart are no longer written one by one: they lie in the second half of a buffer of zeros, and a copy interleaves both.
// CHECK-LABEL: func.func @main
// CHECK: %[[VALUES:[0-9]+]] = linalg.generic
// CHECK: arith.negf
// CHECK: %[[ZEROS:[0-9]+]] = linalg.fill {{.*}} -> tensor<2x3x40x32xf32>
// CHECK-NEXT: %[[BOTH:[0-9]+]] = "ftm.update"(%[[ZEROS]], %[[VALUES]]) {offset = 0 : i64, strides = array<i64: 1280, 32, 1>}
// CHECK-NEXT: %[[TURNED:[0-9]+]] = "ftm.view"(%[[BOTH]]) {offset = 0 : i64, strides = array<i64: 1280, 32, 1, 3840>}
// CHECK: %[[COPY:[0-9]+]] = linalg.copy ins(%[[TURNED]] :
// CHECK: "ftm.update"({{%[0-9]+}}, %[[COPY]]) {offset = 0 : i64, strides = array<i64: 2560, 64, 2, 1>}

module {
  func.func @main(%arg0: tensor<3x40x32xf32>) -> tensor<3x40x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %0 = tensor.empty() : tensor<3x40x32xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<3x40x32xf32>) outs(%0 : tensor<3x40x32xf32>) {
    ^bb0(%in0: f32, %out0: f32):
      %2 = arith.negf %in0 : f32
      linalg.yield %2 : f32
    } -> tensor<3x40x32xf32>
    %3 = arith.constant 0.0 : f32
    %4 = tensor.empty() : tensor<3x40x64xf32>
    %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<3x40x64xf32>) -> tensor<3x40x64xf32>
    %6 = "ftm.update"(%5, %1) {offset = 0 : i64, strides = array<i64: 2560, 64, 2>} : (tensor<3x40x64xf32>, tensor<3x40x32xf32>) -> tensor<3x40x64xf32>
    return %6 : tensor<3x40x64xf32>
  }
}
