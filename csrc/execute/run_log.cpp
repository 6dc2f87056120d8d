#include "execute/run_log.h"

#include <atomic>
#include <chrono>
#include <mutex>

namespace ftm {
namespace {

struct RunLog {
  std::atomic<bool> open{false};
  std::mutex mutex;
  std::vector<ProgramRun> runs;
};

RunLog& run_log() {
  static auto* log = new RunLog;
  return *log;
}

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace

void start_run_log() {
  auto& log = run_log();
  const std::lock_guard<std::mutex> guard(log.mutex);
  log.runs.clear();
  log.open = true;
}

std::vector<ProgramRun> stop_run_log() {
  auto& log = run_log();
  const std::lock_guard<std::mutex> guard(log.mutex);
  log.open = false;
  return std::move(log.runs);
}

LoggedRun::LoggedRun(size_t calls) : calls_(calls) {
  if (run_log().open.load(std::memory_order_relaxed)) {
    begin_ = nanoseconds();
  }
}

LoggedRun::~LoggedRun() {
  auto& log = run_log();
  if (begin_ != 0) {
    const std::lock_guard<std::mutex> guard(log.mutex);
    if (log.open) {
      log.runs.push_back(
          {"ftm program of " + std::to_string(calls_) + " operations", begin_, nanoseconds()});
    }
  }
}

} // namespace ftm
