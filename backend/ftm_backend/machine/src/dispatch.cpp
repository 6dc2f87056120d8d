// Selects the inner loops for this host, once.
#include <cstdlib>
#include <cstring>

#include "kernels/table.h"

namespace ftm {

namespace portable {
const KernelTable& table();
}
#if defined(__x86_64__)
namespace avx2 {
const KernelTable& table();
}
namespace avx512 {
const KernelTable& table();
}
namespace avx512_bf16 {
const KernelTable& table();
}
#endif

namespace {

const KernelTable& choose() {
#if defined(__x86_64__)
  const char* wish = std::getenv("MACHINE_KERNELS");
  const bool any = !wish || !*wish;
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool has_bf16 = has_avx512 && __builtin_cpu_supports("avx512bf16");
  if (has_bf16 && (any || std::strcmp(wish, "avx512_bf16") == 0)) return avx512_bf16::table();
  if (has_avx512 && (any || std::strncmp(wish, "avx512", 6) == 0)) return avx512::table();
  if (has_avx2 && (any || std::strcmp(wish, "portable") != 0)) return avx2::table();
#endif
  return portable::table();
}

} // namespace

const KernelTable& kernels() {
  static const KernelTable& chosen = choose();
  return chosen;
}

} // namespace ftm
