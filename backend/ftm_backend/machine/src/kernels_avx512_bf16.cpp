// The inner loops for AVX-512 with BF16: those for AVX-512, and products of bfloat16 pairs.
#define FTM_ISA avx512_bf16
#include "kernels/matrix.h"

namespace ftm {
namespace avx512 {
const KernelTable& table();
}
namespace avx512_bf16 {

const KernelTable& table();
const KernelTable& table() {
  static const KernelTable filled = [] {
    KernelTable t = avx512::table();
    t.name = "avx512_bf16";
    t.matrix_pairs = matrix<BrainPair>;
    t.matrix_rows = matrix<BrainPair, BrainRow>;
    return t;
  }();
  return filled;
}

} // namespace avx512_bf16
} // namespace ftm
