// A count of events that threads wait for.
#pragma once

#include <atomic>
#include <cstdint>

namespace ftm {

// A waiting thread spins for some microseconds and then sleeps, because the program that uses the
// machine has threads on the same processors.
class EventCount {
 public:
  uint32_t now() const { return count_.load(std::memory_order_acquire); }
  // Counts an event. wakes: threads that sleep too; otherwise only those that spin note it.
  void notify(bool wakes = true);
  // Wakes the threads that sleep and have not noted the last event.
  void wake();
  // Waits until the count is no longer `seen`: first spinning, then asleep.
  void wait(uint32_t seen);
  // Sleeps until `wake`, or a `notify` that wakes, unless the count is no longer `seen`.
  void sleep(uint32_t seen);

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<int> sleepers_{0}; // without any, the system call that wakes is skipped
};

} // namespace ftm
