#include "team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace ftm {
namespace {

// How long a core waits at a barrier before it sleeps: as long as the kernels take that a single
// core runs between those of both. Of 8, 50, 100, 200 and 500 microseconds none served recurrent
// and attention networks better. It is time and not a count, because processors differ tenfold in
// what `pause` takes.
constexpr std::chrono::microseconds kSpin(50);
// How long after a wait that sleep was right for: on a machine that others use, too, the core that
// is waited for may need the very processor.
constexpr std::chrono::microseconds kGlance(5);
// What waking takes beyond a spin: a wait of more than both was long.
constexpr std::chrono::microseconds kWaking(15);
// Between two readings of the clock.
constexpr int kPauses = 64;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How many sleep on any word: waking costs a system call, which is spared when nobody does.
std::atomic<int> sleepers{0};

// Whether this thread's last wait was longer than a spin and a sleep.
thread_local bool last_was_long = false;

} // namespace

void wait_while(const std::atomic<uint32_t>& word, uint32_t seen) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto spin = last_was_long ? kGlance : kSpin;
  do {
    for (int i = 0; i < kPauses; ++i) {
      if (word.load(std::memory_order_acquire) != seen) {
        last_was_long = false;
        return;
      }
      pause();
    }
  } while (Clock::now() - start < spin);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == seen)
    syscall(
        SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr,
        nullptr, 0);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  last_was_long = Clock::now() - start >= kSpin + kWaking;
}

void wake_all(const std::atomic<uint32_t>& word) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(
      SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
      nullptr, 0);
}

} // namespace ftm
