// RUN: ftm-opt --lower-kernels --machine m7032 --cores 1 %s | filecheck %s

// The function of an elementwise kernel loads tiles, maps over them and stores; what its output takes over is its parameter.
// CHECK: @func kernel_0
// CHECK-NEXT: @param x0, f32
// CHECK-NEXT: @param x1, f32
// CHECK-NEXT: @param x2, f32, out, x0
// CHECK: DLD x0[0], 1@1 | 8192@1, [[A:T[0-9]+]]
// CHECK-NEXT: DLD x1[0], 1@1 | 8192@1, [[B:T[0-9]+]]
// CHECK-NEXT: @map 1 x 8192, [[A]]:v0, [[B]]:v1 -> [[SUM:T[0-9]+]]:v2
// CHECK-NEXT: VADD.F32 v0, v1, v2
// CHECK-NEXT: @endmap
// CHECK-NEXT: DST [[SUM]], x2[0], 1@1 | 8192@1
// CHECK-NEXT: @ret
// CHECK: @func main
// CHECK: @call kernel_0, b0[0], b1[0], o0[0]

module attributes {ftm.stage = "outline-kernels", ftm.program = "{\"inputs\": [[\"b0\", \"f32\", [8192]], [\"b1\", \"f32\", [8192]]], \"scalars\": [], \"outputs\": [[\"o0\", \"f32\", [8192], \"b0\"]], \"consts\": [], \"arena\": [], \"windows\": [], \"arena_bytes\": 0}"} {
  func.func @main(%arg0: tensor<8192xf32>, %arg1: tensor<8192xf32>) -> tensor<8192xf32> attributes {ftm.inputs = ["f32", "f32"], ftm.outputs = ["f32"]} {
    %3 = "ftm.kernel"() ({
      %0 = tensor.empty() : tensor<8192xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%arg0, %arg1 : tensor<8192xf32>, tensor<8192xf32>) outs(%0 : tensor<8192xf32>) {
      ^bb0(%in0: f32, %in1: f32, %out0: f32):
        %2 = arith.addf %in0, %in1 : f32
        linalg.yield %2 : f32
      } -> tensor<8192xf32>
      "ftm.yield"(%1) : (tensor<8192xf32>) -> ()
    }) {kind = "loop-nest", one_core, inputs = ["b0", "b1"], outputs = ["o0"], call = "kernel_0, b0[0], b1[0], o0[0]"} : () -> (tensor<8192xf32>)
    return %3 : tensor<8192xf32>
  }
}
