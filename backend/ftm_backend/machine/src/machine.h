// The machine: its threads, and the queue of jobs that they run one after another.
//
// A job has a leader, which is the machine's first thread or the caller of `run`. The leader runs
// parts of the job's supersteps until none is left, and followers join it. Followers that sleep are
// not woken for a short job.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checker.h"
#include "collectives.h"
#include "core_state.h"
#include "event_count.h"
#include "ftm_machine.h"
#include "span_log.h"
#include "supersteps.h"

namespace ftm {

// A program on this machine, with per-core state that is kept between runs.
struct Loaded {
  std::unique_ptr<Program> program;
  struct PerCore {
    std::vector<Slot> slots;
    const uint8_t* bases[4] = {}; // scratchpads that the slots were made for, by space
  };
  std::vector<PerCore> cores;
  // Of the last run, on all threads together. Followers are woken for the first one.
  std::chrono::nanoseconds work = std::chrono::nanoseconds::max();
};

struct Job {
  std::shared_ptr<Loaded> loaded;
  std::vector<uint8_t*> buffers; // of every buffer of the program; start() sets regions of arena
                                 // and GSM
  std::vector<uint8_t> donated; // per buffer: whether an output has the address of an input
  std::atomic<Phase> phase{Phase::whole};
  std::vector<int64_t> scalars;
  uint8_t* arena = nullptr;
  ftm_done done = nullptr;
  void* user = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::string fault; // empty: success
  bool interrupted = false;
  std::vector<ftm_span> spans; // of all cores, if they are recorded
};

// Returns the number of processors that this process may use, at most 256.
int32_t usable_processors();

class Machine {
 public:
  // limits: bytes of each scratchpad by space; 0: unlimited. instructions: of one core in one run;
  // 0: unlimited.
  Machine(int32_t cores, bool checked, const int64_t (&limits)[4], uint64_t instructions);
  ~Machine();

  int32_t cores() const { return count_; }
  std::shared_ptr<Loaded> load(const void* image, size_t size);
  // Lets the machine's first thread run the job, after those submitted before. Throws Error.
  void submit(std::shared_ptr<Job> job);
  // Runs the job, led by the calling thread. Throws Error in a forked process.
  void run(Job& job);
  // Sets how many processors jobs leave to threads of the caller. A job that runs notes it at its
  // next superstep.
  void leave_processors(int32_t count);
  ftm_stats_data stats() const;
  // Turns the recording of spans on or off, for jobs that start later.
  void record_spans(bool on) { records_spans_ = on; }
  void set_collectives(const ftm_collectives& table) { collectives_.set_table(table); }
  // Whether this process opened the machine; its threads do not survive a fork.
  bool at_home() const;

 private:
  struct Seat {
    Core core;
    Memory am, sm, strips;
    std::vector<int64_t> registers;
    std::vector<View> views;
    std::optional<SpanLog> spans; // of the current job, if they are recorded
    std::unique_ptr<Checker> checker; // of the current job, in checked mode
    bool is_prepared = false; // for the current job
  };

  void take_jobs();
  void follow(int32_t thread);
  void start(Job& job);
  void lead(Job& job);
  void run_part(int32_t id);
  void end_superstep();
  void open_superstep();
  void report_faults(int32_t id, const std::function<void()>& run);
  void prepare(Seat& seat, int32_t id);
  void collect_spans(Job& job);
  void finish(Job& job, uint64_t nanoseconds);

  const int32_t count_; // of cores
  const int32_t thread_count_; // as many as cores, but not more than processors
  const bool checked_;
  std::atomic<bool> records_spans_{false};
  int64_t limits_[4];
  const uint64_t most_instructions_;
  const int64_t process_;
  std::vector<std::unique_ptr<Seat>> seats_;
  Memory gsm_, arena_;
  Collectives collectives_;
  std::atomic<int32_t> most_threads_{1}; // that may run parts, the leader among them
  EventCount spare_; // what threads wait for that may not run parts

  // Of the current job, which is started by its leader.
  Supersteps supersteps_;
  Job* current_ = nullptr;
  std::chrono::steady_clock::time_point began_;
  bool is_long_ = false; // followers that sleep are woken
  std::atomic<int32_t> ended_{0}; // cores whose part was their last one
  std::unique_ptr<struct Shadow> shadow_;
  std::mutex fault_mutex_;
  std::string fault_;
  bool interrupted_ = false;

  std::mutex running_; // held while a job runs
  mutable std::mutex mutex_; // may be acquired while `running_` is held
  EventCount posted_; // submissions, and closing
  std::atomic<bool> closing_{false}; // written under mutex_
  std::deque<std::shared_ptr<Job>> queue_;
  ftm_stats_data stats_{};
  std::vector<std::thread> threads_;
};

} // namespace ftm
