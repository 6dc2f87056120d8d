#include "execute/run_log.h"

#include "support/runtime.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace ftm {
namespace {

struct RunLog {
  std::atomic<bool> open{false};
  std::mutex mutex;
  std::vector<ProgramRun> runs;
};

} // namespace

void start_run_log() {
  auto& log = part<RunLog>();
  {
    const std::lock_guard<std::mutex> guard(log.mutex);
    log.runs.clear();
    log.open = true;
  }
  record_spans(true);
}

bool run_log_is_open() {
  return part<RunLog>().open.load(std::memory_order_relaxed);
}

std::vector<ProgramRun> stop_run_log() {
  record_spans(false);
  auto& log = part<RunLog>();
  const std::lock_guard<std::mutex> guard(log.mutex);
  log.open = false;
  return std::move(log.runs);
}

void add_run(ProgramRun run) {
  auto& log = part<RunLog>();
  const std::lock_guard<std::mutex> guard(log.mutex);
  if (log.open) {
    log.runs.push_back(std::move(run));
  }
}

} // namespace ftm
