// A log of program runs, for profilers. Thread-safe.
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
// Ends the log and returns its runs.
std::vector<ProgramRun> stop_run_log();

// Logs its scope as the run of a program with this many calls, if there is a log.
class LoggedRun {
 public:
  explicit LoggedRun(size_t calls);
  ~LoggedRun();
  LoggedRun(const LoggedRun&) = delete;
  LoggedRun& operator=(const LoggedRun&) = delete;

 private:
  size_t calls_;
  int64_t begin_ = 0; // 0 if there is no log
};

} // namespace ftm
