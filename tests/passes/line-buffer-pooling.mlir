// RUN: ftm-opt --line-buffer-pooling --machine m7032 --cores 2 %s | filecheck %s

// Windows of 3 x 3 that overlap are taken from strips of the image.
// CHECK-LABEL: func.func @main
// CHECK: arith.maximumf
// CHECK: {kind = "line-buffer"}
// CHECK-NOT: {kind = "loop-nest"

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<32x32x32xf32>) -> tensor<32x15x15xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %6 = "ftm.kernel"() ({
      %0 = "ftm.view"(%arg0) {offset = 0 : i64, strides = array<i64: 1024, 64, 2, 32, 1>} : (tensor<32x32x32xf32>) -> tensor<32x15x15x3x3xf32>
      %1 = arith.constant 0xFF800000 : f32
      %2 = tensor.empty() : tensor<32x15x15xf32>
      %3 = linalg.fill ins(%1 : f32) outs(%2 : tensor<32x15x15xf32>) -> tensor<32x15x15xf32>
      %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%0 : tensor<32x15x15x3x3xf32>) outs(%3 : tensor<32x15x15xf32>) {
      ^bb0(%in0: f32, %out0: f32):
        %5 = arith.maximumf %out0, %in0 : f32
        linalg.yield %5 : f32
      } -> tensor<32x15x15xf32>
      "ftm.yield"(%4) : (tensor<32x15x15xf32>) -> ()
    }) {kind = "loop-nest"} : () -> (tensor<32x15x15xf32>)
    return %6 : tensor<32x15x15xf32>
  }
}
