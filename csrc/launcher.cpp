#include "launcher.h"

#include "counters.h"
#include "python_bridge.h"
#include "reference.h"
#include "variable.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

namespace ftm {
namespace {

struct Launcher {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<JobPtr> jobs; // the front one may be running
  std::shared_ptr<const std::string> unseen_failure;
  std::thread thread;
  bool running = false; // the thread exists
  bool stopping = false;
  bool orphaned = false; // this is a forked child: the thread stayed behind
  size_t max_in_flight = 3;
};

Launcher& launcher() {
  static auto* instance = new Launcher;
  return *instance;
}

// Memory for the results: that of an input which only this job still holds, where the program allows it.
void place_results(Job& job, const MachineProgram& program) {
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const int32_t alias = program.aliases()[i];
    static auto& donations = counter("donations");
    const bool donated = alias >= 0 && job.inputs[alias].use_count() == 1 &&
        job.inputs[alias]->nbytes() == job.outputs[i]->nbytes();
    // The donor keeps its address until the run is over: the program reads from there.
    if (donated) {
      donations.fetch_add(1);
    } else {
      job.outputs[i]->allocate();
    }
  }
}

void run_on_machine(Job& job, const MachineProgram& program) {
  TORCH_INTERNAL_ASSERT(
      program.inputs() == job.inputs.size() && program.aliases().size() == job.outputs.size() &&
          program.scalars() == job.scalars.size(),
      "the program's image does not have the trace's signature");
  place_results(job, program);
  std::vector<void*> inputs, outputs;
  for (const auto& input : job.inputs) {
    inputs.push_back(input->data());
  }
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    auto& output = *job.outputs[i];
    if (output.data() == nullptr) {
      output.adopt(*job.inputs[program.aliases()[i]]);
    }
    outputs.push_back(output.data());
  }
  const Block arena = program.arena_bytes() == 0 ? Block{} : take_memory(program.arena_bytes());
  try {
    program.run(inputs, outputs, job.scalars, arena.data);
  } catch (const MachineFault& fault) {
    give_memory(arena);
    for (size_t i = 0; i < outputs.size() && fault.inputs_whole; ++i) {
      const int32_t alias = program.aliases()[i];
      if (alias >= 0 && outputs[i] == inputs[alias]) {
        job.inputs[alias]->adopt(*job.outputs[i]);
      }
    }
    throw;
  }
  give_memory(arena);
}

// After a failure: a result that was to replace a value which is still there becomes that value. True if there
// was one. Where the program had begun to write over any donated input, none of the donated ones is.
bool give_back(const Job& job, size_t output) {
  const int32_t input = job.before[output];
  if (input < 0 || job.inputs[input]->state() != Buffer::State::ready ||
      job.inputs[input]->nbytes() != job.outputs[output]->nbytes()) {
    return false;
  }
  const auto& old = *job.inputs[input];
  auto& result = *job.outputs[output];
  if (result.nbytes() != 0) {
    if (old.data() == nullptr) {
      return false; // donated, and the program had begun to write over it
    }
    result.allocate();
    std::memcpy(result.data(), old.data(), result.nbytes());
  }
  return true;
}

void run_on_cpu(Job& job, const Trace& trace) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    const auto& type = trace.parameters[i];
    inputs.push_back(dense_on_cpu(job.inputs[i], type));
  }
  const auto results = run_reference(trace, std::move(inputs), job.scalars);
  for (size_t i = 0; i < results.size(); ++i) {
    job.outputs[i]->allocate();
    store_on_cpu(results[i], trace.result_types[i], *job.outputs[i]);
  }
}

std::shared_ptr<const std::string> run_job(Job& job) {
  try {
    for (const auto& input : job.inputs) {
      if (input->state() == Buffer::State::failed) {
        return input->failure();
      }
    }
    if (const auto* machine = job.program->machine()) {
      run_on_machine(job, *machine);
    } else {
      run_on_cpu(job, job.program->trace());
    }
    return nullptr;
  } catch (const c10::Error& error) {
    return std::make_shared<std::string>(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return std::make_shared<std::string>(error.what());
  }
}

void launch_jobs() {
  pthread_setname_np(pthread_self(), "ftm-launcher");
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  while (true) {
    l.changed.wait(lock, [&] { return l.stopping || (!l.jobs.empty() && l.jobs.front()->started); });
    if (l.jobs.empty() || !l.jobs.front()->started) {
      return; // stopping, and nothing left to run
    }
    const JobPtr job = l.jobs.front();
    lock.unlock();
    const auto failure = run_job(*job);
    std::vector<bool> whole(job->outputs.size(), true);
    for (size_t i = 0; failure && i < whole.size(); ++i) {
      whole[i] = give_back(*job, i);
    }
    job->inputs.clear(); // frees what the program was the last to need
    lock.lock();
    for (size_t i = 0; i < whole.size(); ++i) {
      whole[i] ? job->outputs[i]->set_ready() : job->outputs[i]->set_failed(failure);
    }
    if (failure && !l.unseen_failure) {
      l.unseen_failure = failure;
    }
    l.jobs.pop_front();
    l.changed.notify_all();
    lock.unlock();
    job->outputs.clear();
    lock.lock();
  }
}

[[noreturn]] void throw_failure(const std::string& reason) {
  TORCH_CHECK(false, "a program that was launched earlier on device ftm failed: ", reason);
}

void check_fork(const Launcher& l) {
  TORCH_CHECK(
      !l.orphaned, "Cannot re-initialize device ftm in forked subprocess. To use ftm with multiprocessing, ",
      "you must use the 'spawn' start method, or keep to CPU tensors in the subprocess");
}

void before_fork() {
  recorder_mutex().lock();
  launcher().mutex.lock();
  lock_memory();
}

void after_fork_in_parent() {
  unlock_memory();
  launcher().mutex.unlock();
  recorder_mutex().unlock();
}

void after_fork_in_child() {
  auto& l = launcher();
  if (l.running) {
    l.orphaned = true;
    l.running = false;
    // The thread exists in the parent only, and its waiting is recorded in the condition variable: the child
    // starts with fresh ones, without touching what these stand for.
    new (&l.thread) std::thread;
    new (&l.changed) std::condition_variable;
  }
  after_fork_in_parent();
}

} // namespace

void enqueue(const JobPtr& job) {
  auto& l = launcher();
  std::lock_guard<std::mutex> guard(l.mutex);
  check_fork(l);
  if (!l.running) {
    l.stopping = false;
    l.thread = std::thread(launch_jobs);
    l.running = true;
  }
  l.jobs.push_back(job);
}

void start(const JobPtr& job, ProgramPtr program) {
  static auto& executions = counter("executions");
  executions.fetch_add(1);
  WithoutGil unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  job->program = std::move(program);
  job->started = true;
  l.changed.notify_all();
  l.changed.wait(lock, [&] { return l.jobs.size() <= l.max_in_flight; });
}

void wait_for(const BufferPtr& buffer) {
  if (buffer->state() == Buffer::State::ready) {
    return;
  }
  auto& l = launcher();
  {
    WithoutGil unlocked;
    std::unique_lock<std::mutex> lock(l.mutex);
    if (buffer->state() == Buffer::State::pending) {
      check_fork(l);
    }
    l.changed.wait(lock, [&] { return buffer->state() != Buffer::State::pending; });
    if (buffer->state() == Buffer::State::failed) {
      l.unseen_failure.reset();
    }
  }
  if (buffer->state() == Buffer::State::failed) {
    throw_failure(*buffer->failure());
  }
}

void wait_for_all() {
  auto& l = launcher();
  std::shared_ptr<const std::string> failure;
  {
    WithoutGil unlocked;
    std::unique_lock<std::mutex> lock(l.mutex);
    if (!l.orphaned) {
      l.changed.wait(lock, [&] { return l.jobs.empty(); });
    }
    failure = std::move(l.unseen_failure);
    l.unseen_failure.reset();
  }
  if (failure) {
    throw_failure(*failure);
  }
}

void set_max_in_flight(int jobs) {
  TORCH_CHECK_VALUE(jobs >= 1, "at least one program must be allowed in flight, got ", jobs);
  auto& l = launcher();
  std::lock_guard<std::mutex> guard(l.mutex);
  l.max_in_flight = static_cast<size_t>(jobs);
}

void stop_launcher() {
  WithoutGil unlocked;
  auto& l = launcher();
  std::unique_lock<std::mutex> lock(l.mutex);
  if (!l.running) {
    return;
  }
  l.stopping = true;
  l.changed.notify_all();
  lock.unlock();
  l.thread.join();
  lock.lock();
  l.running = false;
}

bool in_bad_fork() {
  auto& l = launcher();
  std::lock_guard<std::mutex> guard(l.mutex);
  return l.orphaned;
}

void install_fork_handlers() {
  static const int installed = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  TORCH_CHECK(installed == 0, "pthread_atfork failed");
}

} // namespace ftm
