// RUN: ftm-opt --split-k --machine mt3000 --cores 24 %s | filecheck %s
// RUN: ftm-opt --split-k --machine m7032 --cores 8 %s | filecheck %s --check-prefix=KEPT

// The sum over 16384 is cut into parts of a batch, of which the results are added up.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg.matmul
// CHECK: %[[PARTS:[0-9]+]] = linalg.generic {{.*}}["parallel", "parallel", "parallel", "reduction"]
// CHECK-SAME: tensor<8x32x2048xf32>, tensor<8x48x2048xf32>
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%[[PARTS]] : tensor<8x32x48xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
// CHECK: -> tensor<32x48xf32>

// A kernel of panels cuts this sum itself on m7032, and adds up in GSM.
// KEPT: linalg.matmul
// KEPT-NOT: linalg.generic

module {
  func.func @main(%arg0: tensor<524288xf32>, %arg1: tensor<786432xf32>) -> tensor<32x48xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1, 32>} : (tensor<524288xf32>) -> tensor<32x16384xf32>
    %1 = "ftm.view"(%arg1) {offset = 0 : i64, strides = array<i64: 48, 1>} : (tensor<786432xf32>) -> tensor<16384x48xf32>
    %2 = arith.constant 0.0 : f32
    %3 = tensor.empty() : tensor<32x48xf32>
    %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<32x48xf32>) -> tensor<32x48xf32>
    %5 = linalg.matmul ins(%0, %1 : tensor<32x16384xf32>, tensor<16384x48xf32>) outs(%4 : tensor<32x48xf32>) -> tensor<32x48xf32>
    return %5 : tensor<32x48xf32>
  }
}
