#include "team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace ftm {
namespace {

// About 20 microseconds.
constexpr int kSpins = 600;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How many sleep on any word: waking costs a system call, which is spared when nobody does.
std::atomic<int> sleepers{0};

} // namespace

void wait_while(const std::atomic<uint32_t>& word, uint32_t seen) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != seen) return;
    pause();
  }
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == seen)
    syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void wake_all(const std::atomic<uint32_t>& word) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace ftm
