// The timer of DistributedDataParallel, which logs the times of a step's parts. Without one for the
// device, it warns, and logs zeros.
#include "support/gil.h"
#include "sync/cut_trace.h"

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace ftm {
namespace {

// Measures the thread that records. The parts of a step have no times of their own on the device,
// where the step is one program.
class RecordingTimer final : public c10d::Timer {
 public:
  // DistributedDataParallel makes the timer after all processes but one have copied the parameters
  // of that one. Launches these copies. So the first step is the same program on all processes,
  // and rounds in the same way.
  explicit RecordingTimer(c10::Device) {
    const GilRelease unlocked;
    sync(/*wait=*/false);
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto begin = getTimestamp(start);
    const auto last = getTimestamp(end);
    // An event that this step lacks has the time of an earlier one.
    if (!begin.has_value() || !last.has_value() || *last < *begin) {
      return std::nullopt;
    }
    return *last - *begin;
  }
};

} // namespace
} // namespace ftm

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, ftm::RecordingTimer);
} // namespace c10d
