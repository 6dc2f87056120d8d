// Selects the inner loops for this host, once.
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

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
namespace avx512_amx {
const KernelTable& table();
}
#endif

namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
// Linux lets a process use tile registers, which enlarge the frames of signals, on request. Threads
// and forked processes inherit the permission. It is refused where the kernel is too old, or where
// a thread has too small a stack for signals.
bool has_amx() {
#if defined(__linux__)
  constexpr int kLeaf = 7, kTiles = 1 << 24, kBrainProducts = 1 << 22; // EDX of CPUID
  constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_bf16() && __get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) && (d & kTiles) &&
         (d & kBrainProducts) && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

struct Choice {
  const char* name;
  bool (*is_supported)();
  const KernelTable& (*table)();
};
constexpr Choice kChoices[] = {
    // the best one first
    {"avx512_amx", has_amx, avx512_amx::table},
    {"avx512_bf16", has_bf16, avx512_bf16::table},
    {"avx512", has_avx512, avx512::table},
    {"avx2", has_avx2, avx2::table},
};
#endif

const KernelTable& choose() {
#if defined(__x86_64__)
  const char* const wish = std::getenv("MACHINE_KERNELS");
  __builtin_cpu_init();
  bool may_be_chosen = !wish || !*wish;
  for (const Choice& choice : kChoices) {
    may_be_chosen |= wish && std::strcmp(wish, choice.name) == 0;
    if (may_be_chosen && choice.is_supported()) return choice.table();
  }
#endif
  return portable::table();
}

} // namespace

const KernelTable& kernels() {
  static const KernelTable& chosen = choose();
  return chosen;
}

} // namespace ftm
