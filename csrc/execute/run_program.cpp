#include "execute/run_program.h"

#include "execute/run_log.h"
#include "support/event_log.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ftm {
namespace {

// A program that took no longer the last time runs on the thread that launches it: waking the
// launcher costs that thread 5 microseconds, and a reader waits 10 more until it is woken itself.
constexpr std::chrono::microseconds kShort(50);

// Releases the collectives of a job that has ended, whether it has run them or not.
void end_collectives(Job& job) {
  for (const auto& collective : job.collectives) {
    remove_collective(collective->number);
    collective->end(job.failure);
  }
  job.collectives.clear();
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
    job->inputs.clear(); // frees inputs that only this job referenced
    job->old_values.clear();
  }
  lock.lock();
  q.busy = false;
  if (!outcome.interrupted) {
    for (size_t i = 0; i < outcome.valid.size(); ++i) {
      outcome.valid[i] ? job->outputs[i]->set_ready()
                       : job->outputs[i]->set_failed(outcome.failure);
    }
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
  if (!outcome.interrupted) {
    job->outputs.clear();
    end_collectives(*job);
  }
  set_memory_owner(0, 0); // what this thread frees or allocates next is not the run's
  lock.lock();
}

bool runs_at_once(RunQueue& q, const JobPtr& job) {
  const auto* machine = job->program->machine();
  return machine != nullptr && machine->last_time() <= kShort && !job->communicates() &&
         q.jobs.size() == 1 && !q.stopping && next_job(q) == job;
}

} // namespace ftm
