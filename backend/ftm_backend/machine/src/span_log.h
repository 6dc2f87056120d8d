// When a core is in each call of main, and how long it waits at barriers.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "core_state.h"
#include "ftm_machine.h"

namespace ftm {

inline int64_t nanoseconds_now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

// The spans of one core in one run. A run of more than kMost calls keeps the first ones.
class SpanLog {
 public:
  explicit SpanLog(int32_t core) : core_(core) {}

  void begin(int32_t call, const Counters& counters) {
    open_ = {call, core_, nanoseconds_now(), 0, 0, 0, 0, 0};
    at_ = counters;
  }
  void end(const Counters& counters) {
    open_.end = nanoseconds_now();
    open_.dma_bytes = counters.dma_bytes - at_.dma_bytes;
    open_.mm_flops = counters.mm_flops - at_.mm_flops;
    open_.map_operations = counters.map_operations - at_.map_operations;
    if (spans_.size() < kMost) spans_.push_back(open_);
  }
  // A barrier inside of a call counts as a wait of the call.
  void add_wait(int64_t nanoseconds) { open_.wait += uint64_t(nanoseconds); }

  const std::vector<ftm_span>& spans() const { return spans_; }

 private:
  static constexpr size_t kMost = size_t(1) << 18;

  int32_t core_;
  ftm_span open_{};
  Counters at_;
  std::vector<ftm_span> spans_;
};

} // namespace ftm
