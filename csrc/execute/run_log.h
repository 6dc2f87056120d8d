// Runs of programs, noted for a profiler as long as one is at work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ftm {

struct ProgramRun {
  std::string name;
  int64_t begin, end; // nanoseconds since the epoch
};

// Starts an empty log.
void start_run_log();
// Ends it and gives what it has.
std::vector<ProgramRun> stop_run_log();

// Notes the time of its scope, which runs a program with this many calls; does next to nothing
// without a log.
class LoggedRun {
 public:
  explicit LoggedRun(size_t calls);
  ~LoggedRun();
  LoggedRun(const LoggedRun&) = delete;
  LoggedRun& operator=(const LoggedRun&) = delete;

 private:
  size_t calls_;
  int64_t begin_ = 0; // 0: there is no log
};

} // namespace ftm
