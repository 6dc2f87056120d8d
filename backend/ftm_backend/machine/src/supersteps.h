// Supersteps of a run: what the cores execute between two barriers.
//
// A superstep has one part for each core, and any thread may run any part. So a thread that the
// operating system has suspended delays only the part that it has begun, and one thread alone runs
// them all. Example with two cores: while the user's thread has one of two processors, the other
// processor runs the parts of core 0 and core 1 one after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "event_count.h"

namespace ftm {

class Supersteps {
 public:
  explicit Supersteps(int32_t cores) : claims_(size_t(cores)) {}

  // The number of the current superstep, counted over all runs.
  uint32_t number() const { return opened_.now(); }
  // Waits until superstep `number` is over.
  void wait(uint32_t number) { opened_.wait(number); }
  // Whether a run has not ended. Read the number first: then the run's end is not missed.
  bool are_running() const { return running_.load(std::memory_order_acquire); }

  // Returns a core whose part of superstep `number` no thread has claimed, `preferred` if
  // possible, or -1 if there is none. The caller runs the part and calls `finish_part`.
  int32_t claim(uint32_t number, int32_t preferred) {
    const auto cores = int32_t(claims_.size());
    for (int32_t i = 0; i < cores; ++i) {
      const int32_t core = preferred + i < cores ? preferred + i : preferred + i - cores;
      std::atomic<uint32_t>& claimed = claims_[size_t(core)].claimed;
      uint32_t before = number - 1;
      if (claimed.load(std::memory_order_relaxed) == before &&
          claimed.compare_exchange_strong(before, number, std::memory_order_acq_rel))
        return core;
    }
    return -1;
  }

  // Returns true for the last part of a superstep. The caller then opens the next one, or ends the
  // run.
  bool finish_part() { return unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  // Opens the next superstep. wakes: threads that sleep, too; otherwise the caller claims parts
  // itself, or calls `wake`.
  void open(bool wakes) {
    unfinished_.store(int32_t(claims_.size()), std::memory_order_relaxed);
    running_.store(true, std::memory_order_relaxed);
    opened_.notify(wakes);
  }

  // Wakes threads that sleep although a superstep has been opened.
  void wake() { opened_.wake(); }

  // Ends the run.
  void end() {
    // The number changes, so that waiting threads go on. A superstep of that number has no parts.
    const uint32_t next = number() + 1;
    for (Claim& claim : claims_) claim.claimed.store(next, std::memory_order_relaxed);
    running_.store(false, std::memory_order_release);
    opened_.notify();
  }

 private:
  // On a cache line of its own, since threads write to them concurrently.
  struct alignas(64) Claim {
    std::atomic<uint32_t> claimed{0}; // number of the last superstep whose part was claimed
  };

  std::vector<Claim> claims_; // by core
  EventCount opened_;
  std::atomic<int32_t> unfinished_{0}; // parts of the current superstep
  std::atomic<bool> running_{false};
};

} // namespace ftm
