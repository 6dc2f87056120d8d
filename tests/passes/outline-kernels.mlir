// RUN: ftm-opt --outline-kernels --machine m7032 --cores 2 %s | filecheck %s

// Four equal products call one function.
// CHECK-LABEL: func.func @main
// CHECK: call = "kernel_0, b0[0], t0[0]"
// CHECK: call = "kernel_0, t0[0], t1[0]"
// CHECK: call = "kernel_0, t1[0], t2[0]"
// CHECK: call = "kernel_0, t2[0], o0[0]"
// CHECK-NOT: kernel_1

module attributes {ftm.stage = "assign-buffers", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [64, 64]]], \"scalars\": [], \"outputs\": [[\"o0\", \"f32\", [64, 64], \"b0\"]], \"consts\": [], \"arena\": [[\"t0\", 0, \"f32\", [64, 64]], [\"t1\", 16384, \"f32\", [64, 64]], [\"t2\", 0, \"f32\", [64, 64]]], \"windows\": [], \"arena_bytes\": 32768}"} {
  func.func @main(%arg0: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {ftm.inputs = ["f32"], ftm.outputs = ["f32"]} {
    %4 = "ftm.kernel"() ({
      %0 = arith.constant 0.0 : f32
      %1 = tensor.empty() : tensor<64x64xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %3 = linalg.matmul ins(%arg0, %arg0 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%2 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%3) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction", inputs = ["b0"], outputs = ["t0"]} : () -> (tensor<64x64xf32>)
    %9 = "ftm.kernel"() ({
      %5 = arith.constant 0.0 : f32
      %6 = tensor.empty() : tensor<64x64xf32>
      %7 = linalg.fill ins(%5 : f32) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %8 = linalg.matmul ins(%4, %4 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%7 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%8) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t0"], outputs = ["t1"]} : () -> (tensor<64x64xf32>)
    %14 = "ftm.kernel"() ({
      %10 = arith.constant 0.0 : f32
      %11 = tensor.empty() : tensor<64x64xf32>
      %12 = linalg.fill ins(%10 : f32) outs(%11 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %13 = linalg.matmul ins(%9, %9 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%12 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%13) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t1"], outputs = ["t2"]} : () -> (tensor<64x64xf32>)
    %19 = "ftm.kernel"() ({
      %15 = arith.constant 0.0 : f32
      %16 = tensor.empty() : tensor<64x64xf32>
      %17 = linalg.fill ins(%15 : f32) outs(%16 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %18 = linalg.matmul ins(%14, %14 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%17 : tensor<64x64xf32>) -> tensor<64x64xf32>
      "ftm.yield"(%18) : (tensor<64x64xf32>) -> ()
    }) {kind = "contraction", barrier, inputs = ["t2"], outputs = ["o0"]} : () -> (tensor<64x64xf32>)
    return %19 : tensor<64x64xf32>
  }
}
