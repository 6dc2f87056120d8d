// Collectives that are part of programs, such as the all-reduce of gradients in a training step.
// The recorder makes an object for each recorded call. Its number is a scalar of the program, so
// that the program itself is the same in every step. Collective 0 is one of this process alone, and
// does nothing.
#pragma once

#include "graph/call_spec.h"
#include "memory/buffer_error.h"

#include <cstdint>
#include <memory>

namespace ftm {

// Whether a call is a collective. Then it must run once, in the program of its trace.
bool communicates(const CallSpec& spec);

struct Job;

class HostCollective {
 public:
  HostCollective() = default;
  virtual ~HostCollective() = default;
  HostCollective(const HostCollective&) = delete;
  HostCollective& operator=(const HostCollective&) = delete;

  // Called under the recorder's lock when the call has become part of a job.
  virtual void set_job(const std::shared_ptr<Job>& job) = 0;
  // Starts the communication for the elements at `data`, in place, without waiting for other
  // processes. May throw, and does so if it has been started before. Called by the program, on any
  // thread.
  virtual void start(void* data) = 0;
  // Waits until it is complete. Throws if it failed.
  virtual void wait() = 0;
  // Called when its job has ended. `failure` is the job's, null if it succeeded.
  virtual void end(const FailurePtr& failure) = 0;
  // The reason why it failed; null if it did not.
  virtual FailurePtr failure() const = 0;

  int64_t number = 0; // set by `add_collective`
};

using HostCollectivePtr = std::shared_ptr<HostCollective>;

// Registers a collective, until `remove_collective`. Returns its number. Thread-safe, as all of
// these functions.
int64_t add_collective(HostCollectivePtr collective);
// Throws if there is no such collective: a program must not run a collective twice.
HostCollectivePtr find_collective(int64_t number);
void remove_collective(int64_t number);
// Whether any collective is registered.
bool has_collectives();

} // namespace ftm
