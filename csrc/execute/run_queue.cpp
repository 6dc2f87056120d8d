#include "execute/run_queue.h"

#include "program/program_table.h"
#include "support/runtime.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace ftm {
namespace {

// Calls `visit` with each buffer that must be computed before the job runs.
template <typename Visit>
void visit_needed(const Job& job, Visit visit) {
  for (const auto& input : job.inputs) {
    visit(input.buffer);
  }
  for (const auto& old : job.old_values) {
    visit(old.other);
  }
}

// Whether a job in flight computes this value.
bool is_in_flight(const RunQueue& q, const BufferPtr& value) {
  return std::any_of(q.jobs.begin(), q.jobs.end(), [&](const JobPtr& job) {
    return job->in_flight &&
           std::find(job->outputs.begin(), job->outputs.end(), value) != job->outputs.end();
  });
}

// Whether a job must wait for a suspended one: it needs its result, or both communicate, which keep
// their order. (An input that is pending belongs to a suspended job or to a task in flight, since
// all earlier jobs have run.)
bool is_behind_suspended(const RunQueue& q, const Job& job) {
  bool needs_suspended = false;
  visit_needed(job, [&](const BufferPtr& buffer) {
    needs_suspended = needs_suspended || (is_pending(buffer) && !is_in_flight(q, buffer));
  });
  return needs_suspended ||
         (job.communicates() && std::any_of(q.jobs.begin(), q.jobs.end(), [&](const JobPtr& other) {
            return other->communicates() && other->suspended && other->number < job.number;
          }));
}

// Removes a suspended program whose results have no other references. Returns null if there is
// none.
JobPtr remove_unused(RunQueue& q) {
  const auto found = std::find_if(q.jobs.begin(), q.jobs.end(), [](const JobPtr& job) {
    return job->suspended && job->started && !job->communicates() && job.use_count() == 1 &&
           std::all_of(job->outputs.begin(), job->outputs.end(), [](const BufferPtr& output) {
             return output.use_count() == 1;
           });
  });
  if (found == q.jobs.end()) {
    return nullptr;
  }
  JobPtr unused = std::move(*found);
  q.jobs.erase(found);
  return unused;
}

} // namespace

void RunQueue::after_fork() {
  busy = false;
  orphaned = orphaned || running || uses_machine(); // the machine belongs to the parent
  if (running) {
    running = false;
    thread = new std::thread;
    changed = new std::condition_variable;
  }
}

RunQueue& run_queue() {
  return part<RunQueue>();
}

void count_waiting(RunQueue& q, int change) {
  q.waiting += change;
  leave_a_processor(q.waiting == 0);
}

bool is_pending(const BufferPtr& buffer) {
  return buffer && buffer->state() == Buffer::State::pending;
}

void suspend_jobs(RunQueue& q) {
  for (const auto& job : q.jobs) {
    job->suspended = !job->in_flight;
  }
  interrupt_machine();
}

JobPtr first_to_run(const RunQueue& q) {
  const auto found = std::find_if(q.jobs.begin(), q.jobs.end(), [](const JobPtr& job) {
    return !job->suspended && !job->in_flight;
  });
  return found == q.jobs.end() ? nullptr : *found;
}

bool has_task_in_flight(const RunQueue& q) {
  return std::any_of(
      q.jobs.begin(), q.jobs.end(), [](const JobPtr& job) { return job->in_flight; });
}

JobPtr next_job(RunQueue& q) {
  while (auto job = q.busy ? nullptr : first_to_run(q)) {
    if (!job->started) {
      return nullptr;
    }
    if (!is_behind_suspended(q, *job)) {
      bool is_computed = true;
      visit_needed(
          *job, [&](const BufferPtr& buffer) { is_computed = is_computed && !is_pending(buffer); });
      return is_computed ? job : nullptr;
    }
    job->suspended = true;
  }
  return nullptr;
}

void demand(RunQueue& q, const std::function<bool(const Job&)>& is_wanted) {
  if (std::none_of(
          q.jobs.begin(), q.jobs.end(), [](const JobPtr& job) { return job->suspended; })) {
    return;
  }
  std::unordered_set<const Buffer*> values;
  bool communicates = false; // and so do all earlier jobs that do, which keep their order
  for (auto at = q.jobs.rbegin(); at != q.jobs.rend(); ++at) {
    Job& job = **at;
    const bool is_needed = std::any_of(
        job.outputs.begin(), job.outputs.end(),
        [&](const BufferPtr& output) { return values.count(output.get()) != 0; });
    if (!is_needed && !(job.communicates() && communicates) && !is_wanted(job)) {
      continue;
    }
    communicates = communicates || job.communicates();
    if (std::exchange(job.suspended, false)) {
      q.changed->notify_all();
    }
    visit_needed(job, [&](const BufferPtr& needed) {
      if (is_pending(needed)) {
        values.insert(needed.get());
      }
    });
  }
}

void demand_value(RunQueue& q, const BufferPtr& wanted) {
  demand(q, [&](const Job& job) {
    return std::find(job.outputs.begin(), job.outputs.end(), wanted) != job.outputs.end();
  });
}

void demand_all(RunQueue& q) {
  bool resumes = false;
  for (const auto& job : q.jobs) {
    resumes = std::exchange(job->suspended, false) || resumes;
  }
  if (resumes) { // a wake-up costs microseconds
    q.changed->notify_all();
  }
}

void finish_in_flight(RunQueue& q, const JobPtr& job, FailurePtr failure) {
  std::vector<Input> inputs; // freed after the unlock, as the outputs
  std::vector<BufferPtr> outputs;
  const std::lock_guard<std::mutex> guard(q.mutex);
  inputs.swap(job->inputs);
  outputs.swap(job->outputs);
  for (const auto& output : outputs) {
    failure ? output->set_failed(failure) : output->set_ready();
  }
  if (failure && !failure->seen && !q.unseen_failure) {
    q.unseen_failure = failure;
  }
  job->failure = std::move(failure);
  job->in_flight = false;
  job->ended = true;
  const auto found = std::find(q.jobs.begin(), q.jobs.end(), job);
  if (found != q.jobs.end()) {
    q.jobs.erase(found);
  }
  q.changed->notify_all();
}

void drop_unused(RunQueue& q) {
  JobPtr unused;
  do {
    unused.reset();
    const std::lock_guard<std::mutex> guard(q.mutex);
    unused = remove_unused(q);
  } while (unused);
}

} // namespace ftm
