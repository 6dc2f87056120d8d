// Collectives of the running program: those in flight, and the functions that carry them out.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "ftm_machine.h"

namespace ftm {

class Collectives {
 public:
  void set_table(const ftm_collectives& table);
  // Throws Fault if it cannot start.
  void start(const ftm_collective& collective);
  // Throws Fault if the collective has failed, or was not started.
  void wait(int64_t call);
  // Leaves those in flight to the caller, at the end of a run; after a fault, waits for them.
  void end_run(bool has_failed);

 private:
  ftm_collectives table();
  // Returns the message of a failure, or "".
  std::string finish(int64_t call);

  std::mutex mutex_; // acquired alone
  ftm_collectives table_{};
  std::vector<int64_t> in_flight_;
};

} // namespace ftm
