#include "execute/run_program.h"

#include "execute/run_log.h"
#include "support/event_log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

namespace ftm {
namespace {

// A program that took no longer the last time runs on the thread that launches it: waking the
// launcher costs that thread 5 microseconds, and a reader waits 10 more until it is woken itself.
constexpr std::chrono::microseconds kShort(50);
// The same for a program whose results are waited for, since its launcher has nothing else to do.
// Python's signal handlers wait for it, so it is not much longer.
constexpr std::chrono::microseconds kShortAwaited(1000);
// A thread that does not wait this soon after a launch has something else to do.
constexpr std::chrono::microseconds kSoon(20);

// Drops what only the run needed, and so frees inputs that only this job referenced. The lists are
// emptied under the queue's mutex, since a waiting thread may read them there (`demand`).
void drop_inputs(RunQueue& q, Job& job) {
  std::vector<Input> inputs; // freed after the unlock
  std::vector<OldValue> old_values;
  const std::lock_guard<std::mutex> guard(q.mutex);
  inputs.swap(job.inputs);
  old_values.swap(job.old_values);
}

// Releases the collectives of a job that has ended, whether it has run them or not.
void end_collectives(Job& job) {
  for (const auto& collective : job.collectives) {
    remove_collective(collective->number);
    collective->end(job.failure);
  }
  job.collectives.clear();
}

// Returns the collectives that the program has started and did not wait for. Each computes one of
// the job's results.
std::vector<HostCollectivePtr> collectives_in_flight(const Job& job) {
  std::vector<HostCollectivePtr> found;
  for (const auto& collective : job.collectives) {
    if (collective->is_in_flight()) {
      found.push_back(collective);
    }
  }
  return found;
}

// Removes from `outputs` those that are complete, and returns them.
std::vector<BufferPtr> take_complete(
    std::vector<BufferPtr>& outputs, const std::vector<const void*>& incomplete) {
  const auto is_complete = [&](const BufferPtr& output) {
    return std::find(incomplete.begin(), incomplete.end(), output->data()) == incomplete.end();
  };
  const auto first = std::stable_partition(outputs.begin(), outputs.end(), is_complete);
  std::vector<BufferPtr> complete(outputs.begin(), first);
  outputs.erase(outputs.begin(), first);
  return complete;
}

// Ends a job when its last collective is complete.
void end_when_complete(const JobPtr& job, const std::vector<HostCollectivePtr>& collectives) {
  const auto left = std::make_shared<std::atomic<size_t>>(collectives.size());
  for (const auto& collective : collectives) {
    collective->when_complete([job, left] {
      if (--*left != 0) {
        return;
      }
      FailurePtr failure;
      for (const auto& ended : job->collectives) {
        failure = failure ? failure : ended->failure();
      }
      finish_in_flight(run_queue(), job, std::move(failure));
      end_collectives(*job);
    });
  }
}

} // namespace

void run_program(RunQueue& q, std::unique_lock<std::mutex>& lock, const JobPtr& job) {
  q.busy = true;
  allow_runs();
  lock.unlock();
  const int64_t begin = run_log_is_open() ? nanoseconds_now() : 0;
  const auto outcome = run_job(*job);
  if (begin != 0 && !outcome.interrupted) {
    add_run(
        {job->number, job->program, std::move(job->origin), begin, nanoseconds_now(),
         std::move(job->spans)});
  }
  if (!outcome.interrupted) {
    drop_inputs(q, *job);
  }
  const bool has_run = !outcome.interrupted && !outcome.failure;
  const auto in_flight = has_run ? collectives_in_flight(*job) : std::vector<HostCollectivePtr>();
  std::vector<const void*> incomplete;
  incomplete.reserve(in_flight.size());
  for (const auto& collective : in_flight) {
    incomplete.push_back(collective->result());
  }
  std::vector<BufferPtr>
      outputs; // dropped without the lock, but before a thread that waits goes on
  lock.lock();
  if (!in_flight.empty()) {
    outputs = take_complete(job->outputs, incomplete);
    for (const auto& output : outputs) {
      output->set_ready();
    }
  } else if (!outcome.interrupted) {
    outputs.swap(job->outputs);
    for (size_t i = 0; i < outcome.valid.size(); ++i) {
      outcome.valid[i] ? outputs[i]->set_ready() : outputs[i]->set_failed(outcome.failure);
    }
  }
  lock.unlock();
  outputs.clear();
  lock.lock();
  q.busy = false;
  if (!in_flight.empty()) {
    job->in_flight = true;
  } else if (!outcome.interrupted) {
    if (outcome.failure && !outcome.failure->seen && !q.unseen_failure) {
      q.unseen_failure = outcome.failure;
    }
    q.jobs.erase(std::find(q.jobs.begin(), q.jobs.end(), job));
    job->failure = outcome.failure;
    job->ended = true;
  }
  if (q.waiting != 0 || !q.jobs.empty() || q.stopping) { // a wake-up costs microseconds
    q.changed->notify_all();
  }
  lock.unlock();
  if (!in_flight.empty()) {
    end_when_complete(job, in_flight);
  } else if (!outcome.interrupted) {
    end_collectives(*job);
  }
  set_memory_owner(0, 0); // what this thread frees or allocates next is not the run's
  lock.lock();
}

bool runs_at_once(RunQueue& q, const JobPtr& job) {
  const auto* machine = job->program->machine();
  return machine != nullptr &&
         machine->last_time() <= (machine->is_awaited() ? kShortAwaited : kShort) &&
         !job->communicates() && q.jobs.size() == 1 && !q.stopping && next_job(q) == job;
}

namespace {

void note_awaited(RunQueue& q, bool is_awaited) {
  if (const auto program = std::exchange(q.launched, {}).lock()) {
    if (const auto* machine = program->machine()) {
      machine->set_awaited(is_awaited);
    }
  }
}

} // namespace

void note_launched(RunQueue& q, const ProgramPtr& program) {
  note_awaited(q, false);
  q.launched = program;
  q.launched_at = std::chrono::steady_clock::now();
}

void note_waiting(RunQueue& q) {
  note_awaited(q, std::chrono::steady_clock::now() - q.launched_at <= kSoon);
}

} // namespace ftm
