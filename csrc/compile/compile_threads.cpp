#include "compile/compile_threads.h"

#include "compile/compile_queue.h"
#include "execute/first_run_observer.h"
#include "execute/launcher.h"
#include "memory/buffer_error.h"
#include "partition/whole_programs.h"
#include "program/program_table.h"
#include "support/counters.h"
#include "support/gil.h"
#include "support/runtime.h"
#include "support/shutdown.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace ftm {
namespace {

constexpr uint64_t kMaxLaunches = 4; // that wait; each keeps its inputs alive
constexpr auto kPollInterval = std::chrono::milliseconds(50);

std::atomic<size_t> thread_limit{1};
std::atomic<bool> compiles_at_launch{false};

// A forked child has neither the compile threads nor the parent's programs. It leaks the parent's
// queue and starts with a new one.
struct CurrentQueue {
  static constexpr LockRank kLockRank = LockRank::compiler;
  CompileQueue* queue = new CompileQueue;
  void lock() { queue->mutex.lock(); }
  void unlock() { queue->mutex.unlock(); }
  void after_fork() {
    queue = new CompileQueue;
    lock(); // as the parent's is
  }
};

CompileQueue& compile_queue() {
  return *part<CurrentQueue>().queue;
}

// Whether the thread that launches or waits does the queue's work.
bool compiles_here() {
  return compiles_at_launch || is_observed() || !uses_machine() || is_shutting_down();
}

// Starts a job. On an error the job runs or has failed. `is_owner`: throws it; otherwise the thread
// that reads a result does.
void start_unit(const JobPtr& job, const ProgramPtr& program, bool is_owner) {
  try {
    start_observed(job, program);
  } catch (const std::exception& error) {
    const auto failure = failure_from(error, "(while a program was launched on device ftm)");
    failure->seen = is_owner;
    abandon(job, failure);
    if (is_owner) {
      throw;
    }
  }
}

// Starts the first unit. `lock` is released meanwhile.
void start_first(CompileQueue& q, QueueLock& lock, bool is_requester) {
  q.starting = q.starting || !is_requester;
  QueuedUnit unit = std::move(q.units.front());
  q.units.pop_front();
  lock.unlock();
  std::exception_ptr error;
  if (unit.program) {
    set_compile_thread(true); // the job may be another thread's
    try {
      start_unit(unit.job, unit.program, unit.owner == std::this_thread::get_id());
    } catch (...) {
      error = std::current_exception();
    }
    set_compile_thread(!is_requester);
  } else {
    abandon(unit.job, unit.compilation->failure);
  }
  unit = {}; // frees the job's buffers if it has ended
  lock.lock();
  q.starting = q.starting && is_requester;
  q.changed.notify_all();
  if (error) {
    std::rethrow_exception(error);
  }
}

void resume_compilations();

// Compiles a program on this thread. `lock` is released meanwhile. `is_requester`: throws the
// exception that interrupts the compiler.
void compile(CompileQueue& q, QueueLock& lock, CompilationPtr compilation, bool is_requester) {
  compilation->state = Compilation::State::running;
  const bool is_whole = compilation->is_whole;
  lock.unlock();
  BuildResult built;
  try {
    if (compilation->job && complete_request(*compilation)) {
      const QueueLock guard(q.mutex);
      decide(q, compilation);
      q.changed.notify_all(); // other requests may depend on it
    }
    built = compile_program(compilation->request);
    const bool is_useless = is_whole && !built.failure.empty(); // its pieces are better
    if (built.program && !is_useless) {
      add_program(compilation->request.hash, built.program);
      if (is_whole) {
        set_whole_compiled(compilation->request.hash);
      }
    }
  } catch (const std::exception& error) {
    compilation->failure = failure_from(error, "(while a program was compiled for device ftm)");
  }
  lock.lock();
  const bool is_suspended = note_outcome(q, compilation, built);
  if (is_suspended && !is_requester) {
    compilation->interrupt = built.interrupt;
  }
  q.changed.notify_all();
  lock.unlock();
  if (is_suspended) {
    stall(&resume_compilations);
  }
  if (is_requester && built.interrupt) {
    std::rethrow_exception(built.interrupt);
  }
  compilation.reset(); // without the lock: a Python exception's destructor takes the GIL
  built = {};
  lock.lock();
}

bool has_work(const CompileQueue& q, bool is_requester) {
  return can_start(q, is_requester) || next_to_compile(q, is_requester) != nullptr;
}

// Starts a unit or compiles a program. Returns false if there is nothing to do.
bool work(CompileQueue& q, QueueLock& lock, bool is_requester) {
  if (can_start(q, is_requester)) {
    start_first(q, lock, is_requester);
    return true;
  }
  auto next = next_to_compile(q, is_requester);
  if (next) {
    compile(q, lock, std::move(next), is_requester);
    return true;
  }
  return false;
}

void run_thread(CompileQueue& q, uint64_t stops) {
  pthread_setname_np(pthread_self(), "ftm-compile");
  set_compile_thread(true);
  QueueLock lock(q.mutex);
  do {
    q.changed.wait(lock, [&] { return q.stops != stops || has_work(q, false); });
  } while (q.stops == stops && work(q, lock, false));
}

// Wakes the compile threads, and starts one for each compilation up to the limit, and one for the
// units. Returns whether there is one. Called with the queue's mutex.
bool wake_threads(CompileQueue& q) {
  q.changed.notify_all();
  const size_t needed = q.compilations.size() + static_cast<size_t>(q.starting);
  const size_t wanted = std::max<size_t>(1, std::min<size_t>(thread_limit, needed));
  try {
    while (q.threads.size() < wanted) {
      q.threads.emplace_back([&q, stops = q.stops] { run_thread(q, stops); });
    }
  } catch (const std::system_error& error) {
    if (!std::exchange(q.lacks_threads, true)) {
      q.no_thread = error.what();
    }
  }
  return !q.threads.empty();
}

// Lets an interrupted compilation begin again. Returns its exception if it was not thrown yet, to
// be destroyed without the lock.
std::exception_ptr retry(CompileQueue& q, const CompilationPtr& compilation) {
  compilation->state = Compilation::State::waiting;
  wake_threads(q);
  return std::exchange(compilation->interrupt, nullptr);
}

// Waits, without the GIL, until ready(), which is called with the queue's mutex. Interrupted
// compilations begin again. `is_here`: this thread does the queue's work. Throws the exception that
// interrupts a compilation meanwhile, or that of a signal handler.
template <typename Ready>
void wait_for_queue(CompileQueue& q, bool is_here, Ready ready) {
  const GilRelease unlocked;
  Waiting waiting; // a compile thread may wait for room in the run queue
  std::vector<std::exception_ptr> dropped;
  try {
    QueueLock lock(q.mutex);
    while (!ready() && first_interrupted(q)) {
      dropped.push_back(retry(q, first_interrupted(q)));
    }
    while (!ready()) {
      if (const auto interrupted = first_interrupted(q)) {
        // It does not begin again before the next wait, so that a wait throws no older error.
        if (const auto error = std::exchange(interrupted->interrupt, nullptr)) {
          std::rethrow_exception(error);
        }
        retry(q, interrupted); // another thread has thrown the error
        continue;
      }
      const bool works = is_here || q.threads.empty();
      if (works && work(q, lock, true)) {
        continue;
      }
      const bool is_woken = q.changed.wait_for(lock, kPollInterval, [&] {
        return ready() || first_interrupted(q) || (works && has_work(q, true));
      });
      if (!is_woken) {
        lock.unlock();
        handle_signals();
        lock.lock();
      }
    }
  } catch (...) {
    waiting.give_up();
    throw;
  }
}

// For threads that wait for the results of jobs: begins interrupted compilations again, and waits
// until the units in the queue are started.
void resume_compilations() {
  auto& q = compile_queue();
  const uint64_t launch = [&] {
    const QueueLock lock(q.mutex);
    return q.launches;
  }();
  wait_for_queue(q, compiles_here(), [&] { return is_started(q, launch); });
}

// Appends the units of a launch, and wakes the compile threads unless this thread compiles and
// starts the units: if `is_here`, which is set if no other one can. Returns the launch's number.
uint64_t submit(CompileQueue& q, std::vector<LaunchUnit> units, bool& is_here) {
  const QueueLock lock(q.mutex);
  const uint64_t launch = append(q, std::move(units), is_here);
  is_here = is_here || !wake_threads(q);
  return launch;
}

// Hands over to the compile threads what is left of a launch whose thread gives up. Without them,
// the next thread that waits for a result does it.
void release_reserved(CompileQueue& q) {
  QueueLock lock(q.mutex);
  for (const auto& compilation : q.compilations) {
    compilation->is_reserved = false;
  }
  for (auto& unit : q.units) {
    if (unit.owner == std::this_thread::get_id()) {
      unit.owner = {};
    }
  }
  if (!wake_threads(q)) {
    lock.unlock();
    stall(&resume_compilations);
  }
}

// Starts units whose programs are in memory.
void start_now(CompileQueue& q, std::vector<LaunchUnit> units) {
  for (size_t i = 0; i < units.size(); ++i) {
    const LaunchUnit unit = std::exchange(units[i], {});
    set_varying_results(*unit.job, *unit.program);
    try {
      start_unit(unit.job, unit.program, true);
    } catch (...) { // the later ones stay in the launch order
      units.erase(units.begin(), units.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      if (!units.empty()) {
        bool is_here = false;
        submit(q, std::move(units), is_here);
        release_reserved(q);
      }
      throw;
    }
  }
}

bool is_idle(CompileQueue& q) {
  const QueueLock lock(q.mutex);
  return q.units.empty();
}

} // namespace

void launch_units(std::vector<LaunchUnit> units, bool is_awaited) {
  static auto& hits = counter("cache_hits_memory");
  const auto compiled = std::count_if(
      units.begin(), units.end(), [](const LaunchUnit& unit) { return unit.program != nullptr; });
  hits.fetch_add(compiled);
  auto& q = compile_queue();
  if (compiled == static_cast<std::ptrdiff_t>(units.size()) && is_idle(q)) {
    start_now(q, std::move(units));
    return;
  }
  bool is_here = compiles_here();
  const uint64_t launch = submit(q, std::move(units), is_here);
  if (is_here) {
    try {
      wait_for_queue(q, true, [&] { return is_started(q, launch); });
    } catch (...) {
      release_reserved(q);
      throw;
    }
  } else if (const uint64_t behind = is_awaited ? 0 : kMaxLaunches; launch > behind) {
    wait_for_queue(q, false, [&] { return is_started(q, launch - behind); });
  }
}

void compile_whole(CompileRequest request) {
  if (compiles_here() || thread_limit < 2) { // it would not be compiled meanwhile
    set_whole_compiled(request.hash);
    return;
  }
  const Hash128 hash = request.hash;
  auto& q = compile_queue();
  CompilationPtr compilation;
  {
    const QueueLock lock(q.mutex);
    compilation = request_program(q, std::move(request), nullptr, false);
    compilation->is_whole = true;
    wake_threads(q);
  }
  if (compilation->program) {
    set_whole_compiled(hash);
  }
}

ProgramPtr wait_for_program(CompileRequest request) {
  auto& q = compile_queue();
  const bool is_here = compiles_here();
  CompilationPtr compilation;
  {
    const QueueLock lock(q.mutex);
    compilation = request_program(q, std::move(request), nullptr, is_here);
    ++compilation->waiters;
    if (!is_done(compilation) && !is_here) {
      wake_threads(q);
    }
  }
  try {
    wait_for_queue(q, is_here, [&] { return is_done(compilation); });
  } catch (...) {
    release_reserved(q);
    const QueueLock lock(q.mutex);
    if (--compilation->waiters == 0 && has_interrupt(compilation)) {
      std::erase(q.compilations, compilation);
    }
    throw;
  }
  if (compilation->failure) {
    throw_failure(*compilation->failure);
  }
  return compilation->program;
}

void wait_for_compilations() {
  auto& q = compile_queue();
  wait_for_queue(
      q, compiles_here(), [&] { return q.compilations.empty() && q.units.empty() && !q.starting; });
}

void warn_of_compile_failures() {
  std::vector<std::string> failures;
  std::string no_thread;
  {
    auto& q = compile_queue();
    const QueueLock lock(q.mutex);
    failures.swap(q.failures);
    no_thread.swap(q.no_thread);
  }
  for (const auto& reason : failures) {
    TORCH_WARN(
        "a program could not be compiled and runs op by op on the CPU (slow, but right): ", reason);
  }
  if (!no_thread.empty()) {
    TORCH_WARN("few programs are compiled at a time: ", no_thread);
  }
}

void stop_compile_threads() {
  const GilRelease unlocked; // a compile thread's last act may need the GIL
  auto& q = compile_queue();
  const bool is_interrupted = was_interrupted();
  wait_for_queue(q, compiles_here(), [&] {
    // No thread waits for the units behind an interrupted compilation.
    return is_interrupted || first_interrupted(q) || (q.units.empty() && !q.starting);
  });
  std::deque<QueuedUnit> units; // destroyed without the lock, as what follows
  std::vector<CompilationPtr> compilations;
  std::vector<std::thread> threads;
  bool is_busy = false;
  {
    const QueueLock lock(q.mutex);
    is_busy = q.starting ||
              std::any_of(q.compilations.begin(), q.compilations.end(), [](const auto& each) {
                return each->state == Compilation::State::running;
              });
    ++q.stops;
    units.swap(q.units);
    compilations.swap(q.compilations);
    q.undecided.clear();
    threads.swap(q.threads);
    q.changed.notify_all();
  }
  for (auto& thread : threads) {
    if (is_busy) {
      thread.detach(); // one waits for the compiler; the process does not wait for it
    } else {
      thread.join();
    }
  }
}

void set_compile_threads(int count) {
  TORCH_CHECK_VALUE(count >= 1, "at least one thread must compile, got ", count);
  thread_limit = static_cast<size_t>(count);
}

void set_compile_at_launch(bool always) {
  compiles_at_launch = always;
}

} // namespace ftm
