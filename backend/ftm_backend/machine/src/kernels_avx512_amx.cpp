// The inner loops for AVX-512 with AMX: those for AVX-512 with BF16, and products of bfloat16 in
// tile registers.
#define FTM_ISA avx512_amx
#include "kernels/matrix_tiles.h"

namespace ftm {
namespace avx512_bf16 {
const KernelTable& table();
}
namespace avx512_amx {

const KernelTable& table();
const KernelTable& table() {
  static const KernelTable filled = [] {
    KernelTable t = avx512_bf16::table();
    t.name = "avx512_amx";
    t.tiles = {packed_bytes, pack_tiles, matrix_tiles};
    return t;
  }();
  return filled;
}

} // namespace avx512_amx
} // namespace ftm
