// RUN: ftm-opt --fill-pad-border --machine m7032 --cores 2 %s | filecheck %s

// A row before each plane and an element before each row are written beside the image, and nothing below it.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.fill {{.*}} -> tensor<16x113x113xf32>
// CHECK: %[[ROWS:[0-9]+]] = linalg.copy {{.*}} -> tensor<16x1x113xf32>
// CHECK: %[[COLUMNS:[0-9]+]] = linalg.copy {{.*}} -> tensor<16x112x1xf32>
// CHECK: %[[NOTHING:[0-9]+]] = tensor.empty() : tensor<16x113x113xf32>
// CHECK-NEXT: %[[IMAGE:[0-9]+]] = "ftm.update"(%[[NOTHING]], %arg0) {offset = 114 : i64, strides = array<i64: 12769, 113, 1>}
// CHECK-NEXT: %[[BOTH:[0-9]+]] = "ftm.update"(%[[IMAGE]], %[[ROWS]]) {offset = 0 : i64, strides = array<i64: 12769, 113, 1>, joined}
// CHECK-NEXT: "ftm.update"(%[[BOTH]], %[[COLUMNS]]) {offset = 113 : i64, strides = array<i64: 12769, 113, 1>, joined}

module {
  func.func @main(%arg0: tensor<16x112x112xf32>) -> tensor<16x113x113xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %0 = arith.constant 0xFF800000 : f32
    %1 = tensor.empty() : tensor<16x113x113xf32>
    %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<16x113x113xf32>) -> tensor<16x113x113xf32>
    %3 = "ftm.update"(%2, %arg0) {offset = 114 : i64, strides = array<i64: 12769, 113, 1>} : (tensor<16x113x113xf32>, tensor<16x112x112xf32>) -> tensor<16x113x113xf32>
    return %3 : tensor<16x113x113xf32>
  }
}
