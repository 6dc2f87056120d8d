#include "event_count.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace ftm {
namespace {

// How long a thread spins before it sleeps: about the time of kernels that a single core runs
// between two barriers. Of 8, 50, 100, 200 and 500 microseconds this value was best for recurrent
// and attention networks. It is a time and not a count because the cost of `pause` differs tenfold
// between processors.
constexpr std::chrono::microseconds kSpin(50);
// How long a thread spins after a wait that was long: if other processes use the machine, the
// thread it waits for may need this processor.
constexpr std::chrono::microseconds kGlance(5);
// Time to wake up beyond spinning: a wait longer than both was long.
constexpr std::chrono::microseconds kWaking(15);
// Spins between two readings of the clock.
constexpr int kPauses = 64;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether this thread's last wait was longer than a spin and a wake-up.
thread_local bool last_was_long = false;

long futex(const std::atomic<uint32_t>& word, int operation, uint32_t value) {
  return syscall(
      SYS_futex, reinterpret_cast<const uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

} // namespace

void EventCount::notify(bool wakes) {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (wakes) wake();
}

void EventCount::wake() {
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex(count_, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void EventCount::wait(uint32_t seen) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto spin = last_was_long ? kGlance : kSpin;
  do {
    for (int i = 0; i < kPauses; ++i) {
      if (now() != seen) {
        last_was_long = false;
        return;
      }
      pause();
    }
    sched_yield(); // the thread it waits for may be queued for this processor
  } while (Clock::now() - start < spin);
  sleep(seen);
  last_was_long = Clock::now() - start >= kSpin + kWaking;
}

void EventCount::sleep(uint32_t seen) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (count_.load(std::memory_order_seq_cst) == seen) futex(count_, FUTEX_WAIT_PRIVATE, seen);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace ftm
