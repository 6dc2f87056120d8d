// The cores of a machine meeting at a barrier.
//
// A core that waits spins for some microseconds, then sleeps: the program that uses the machine has
// threads of its own on the same processors.
#pragma once

#include <atomic>
#include <cstdint>

namespace ftm {

// Waits until `word` is no longer `seen`: by spinning, then asleep.
void wait_while(const std::atomic<uint32_t>& word, uint32_t seen);
// Wakes all who sleep on `word`.
void wake_all(const std::atomic<uint32_t>& word);

class Team {
 public:
  explicit Team(uint32_t size) : size_(size) {}

  enum class Met : uint8_t { all, given_up, deserted };

  // given_up: a core has failed; deserted: those who are not here have left.
  Met meet() {
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (const Met end = end_.load(std::memory_order_acquire); end != Met::all) return end;
    const uint32_t there = there_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (there == size_) {
      there_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      if (size_ > 1) wake_all(round_);
    } else if (nobody_runs(there)) {
      release(Met::deserted);
    } else {
      wait_while(round_, round);
    }
    return end_.load(std::memory_order_acquire);
  }

  // This core will meet no more in this run.
  void leave() {
    const uint32_t there = there_.fetch_add(kLeft, std::memory_order_acq_rel) + kLeft;
    if (there % kLeft > 0 && nobody_runs(there)) release(Met::deserted);
  }

  // Lets everyone go who waits or will wait.
  void give_up() { release(Met::given_up); }

  // Between two runs.
  void reset() {
    there_.store(0);
    end_.store(Met::all);
  }

 private:
  static constexpr uint32_t kLeft = 1 << 16;

  bool nobody_runs(uint32_t there) const { return there % kLeft + there / kLeft == size_; }

  void release(Met end) {
    end_.store(end, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel);
    wake_all(round_);
  }

  const uint32_t size_;
  std::atomic<uint32_t> there_{0}; // how many wait, and kLeft times how many have left
  std::atomic<uint32_t> round_{0};
  std::atomic<Met> end_{Met::all};
};

} // namespace ftm
