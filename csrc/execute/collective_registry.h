// Collectives that are part of programs, such as the all-reduce of gradients in a training step.
// The recorder makes an object for each recorded call. Its number is a scalar of the program, so
// that the program itself is the same in every step. Collective 0 is one of this process alone: the
// machine copies its elements.
#pragma once

#include "graph/call_spec.h"
#include "memory/buffer_error.h"

#include <cstdint>
#include <functional>
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
  // Starts the communication, without waiting for other processes. `source` has the elements that
  // this process contributes, until the call returns; the result is written to `result` until it is
  // complete. May throw, and does so if it has been started before. Called by the program, on any
  // thread.
  virtual void start(const void* source, void* result) = 0;
  // Waits until it is complete. Throws if it failed.
  virtual void wait() = 0;
  // Called when its job has ended. `failure` is the job's, null if it succeeded.
  virtual void end(const FailurePtr& failure) = 0;
  // The reason why it failed; null if it did not.
  virtual FailurePtr failure() const = 0;
  // Whether it has started and is not complete.
  virtual bool is_in_flight() const = 0;
  // Returns the address of its result, once it has started.
  virtual const void* result() const = 0;
  // Calls `call` when it is complete, on any thread; at once if it is.
  virtual void when_complete(std::function<void()> call) = 0;

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
