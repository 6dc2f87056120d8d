// Barrier of the cores of a machine.
//
// A waiting core spins for some microseconds and then sleeps, because the program that uses the
// machine has threads on the same processors.
#pragma once

#include <atomic>
#include <cstdint>

namespace ftm {

// Waits until `word` is no longer `seen`: first spinning, then asleep.
void wait_while(const std::atomic<uint32_t>& word, uint32_t seen);
// Wakes all threads that sleep on `word`.
void wake_all(const std::atomic<uint32_t>& word);

class Team {
 public:
  explicit Team(uint32_t size) : size_(size) {}

  enum class Met : uint8_t { all, given_up, deserted };

  // Waits for all cores. given_up: a core has failed; deserted: all other cores have left.
  Met meet() {
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (const Met end = end_.load(std::memory_order_acquire); end != Met::all) return end;
    const uint32_t there = there_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (there == size_) {
      there_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      if (size_ > 1) wake_all(round_);
    } else if (none_runs(there)) {
      release(Met::deserted);
    } else {
      wait_while(round_, round);
    }
    return end_.load(std::memory_order_acquire);
  }

  // This core reaches no more barriers in this run.
  void leave() {
    const uint32_t there = there_.fetch_add(kLeft, std::memory_order_acq_rel) + kLeft;
    if (there % kLeft > 0 && none_runs(there)) release(Met::deserted);
  }

  // Releases all cores that wait or will wait.
  void give_up() { release(Met::given_up); }

  // Called between two runs.
  void reset() {
    there_.store(0);
    end_.store(Met::all);
  }

 private:
  static constexpr uint32_t kLeft = 1 << 16;

  bool none_runs(uint32_t there) const { return there % kLeft + there / kLeft == size_; }

  void release(Met end) {
    end_.store(end, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel);
    wake_all(round_);
  }

  const uint32_t size_;
  std::atomic<uint32_t> there_{0}; // number of waiting cores, plus kLeft times those that left
  std::atomic<uint32_t> round_{0};
  std::atomic<Met> end_{Met::all};
};

} // namespace ftm
