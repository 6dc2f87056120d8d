// RUN: ftm-opt --assign-buffers --machine m7032 --cores 2 %s | filecheck %s

// Each value between kernels has a buffer; the third lies where the first one lay, which nobody reads any more. The result takes over the
// input. Kernels that read what others wrote wait at a barrier.
// CHECK: ftm.program
// CHECK-SAME: \"arena\": {{.*}}\"t0\", 0, {{.*}}\"t1\", 16384, {{.*}}\"t2\", 0, {{.*}}\"arena_bytes\": 32768
// CHECK-LABEL: func.func @main
// CHECK: {kind = "contraction", inputs = ["b0"], outputs = ["t0"]}
// CHECK: {kind = "contraction", barrier, inputs = ["t0"], outputs = ["t1"]}
// CHECK: {kind = "contraction", barrier, inputs = ["t1"], outputs = ["t2"]}
// CHECK: {kind = "contraction", barrier, inputs = ["t2"], outputs = ["o0"]}

module attributes {ftm.stage = "fuse-ops"} {
  func.func @main(%arg0: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %4 = "ftm.kernel"() ({
      %0 = arith.constant 0.0 : f32
      %1 = tensor.empty() : tensor<64x64xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %3 = linalg.matmul ins(%arg0, %arg0 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%2 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%3) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<64x64xf32>)
    %9 = "ftm.kernel"() ({
      %5 = arith.constant 0.0 : f32
      %6 = tensor.empty() : tensor<64x64xf32>
      %7 = linalg.fill ins(%5 : f32) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %8 = linalg.matmul ins(%4, %4 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%7 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%8) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<64x64xf32>)
    %14 = "ftm.kernel"() ({
      %10 = arith.constant 0.0 : f32
      %11 = tensor.empty() : tensor<64x64xf32>
      %12 = linalg.fill ins(%10 : f32) outs(%11 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %13 = linalg.matmul ins(%9, %9 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%12 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%13) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<64x64xf32>)
    %19 = "ftm.kernel"() ({
      %15 = arith.constant 0.0 : f32
      %16 = tensor.empty() : tensor<64x64xf32>
      %17 = linalg.fill ins(%15 : f32) outs(%16 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %18 = linalg.matmul ins(%14, %14 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%17 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%18) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction"} : () -> (tensor<64x64xf32>)
    return %19 : tensor<64x64xf32>
  }
}
