// The optimizer step that ended last: whether it was launched, and what was recorded since.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_set>

namespace ftm {

// Under the recorder's lock.
struct LastStep {
  uint64_t number = 0;
  uint64_t optimizer = 0;
  bool launched = true;
  int64_t calls = 0; // that were pending when it ended and are so still
  std::unordered_set<uint64_t> waits; // optimizers whose last step was followed by metrics
};

LastStep& last_step();

// True from the end of a step until the next one begins or what is pending is launched: calls are looked at then.
inline std::atomic<bool> after_step{false};

// What is pending is about to be launched; `observed`: because somebody reads it. Under the recorder's lock.
void note_launch(bool observed);

} // namespace ftm
