// The machine: one thread per core, and the queue of jobs that they run one after another. The
// thread of core 0 takes jobs from the queue; any other thread may take its place for a job. That
// thread runs all cores of short jobs.
#pragma once

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

#include "collectives.h"
#include "core_state.h"
#include "ftm_machine.h"
#include "span_log.h"
#include "team.h"

namespace ftm {

// Chooses whether a program's cores run in turns on one thread or each in its own. Meeting at a
// barrier takes threads 5 microseconds where processors are idle, and a hundred where they are not,
// so this depends on the program and on the machine's load: both ways are timed, and the slower one
// is tried again from time to time. Long programs always run in threads.
class ThreadChoice {
 public:
  using Duration = std::chrono::nanoseconds;

  // How long the next run may take in turns before it is handed over; 0: it starts in all threads.
  Duration limit();
  // Notes the time of a run for which `limit` was the limit. barriers: met in turns.
  void note(Duration time, Duration limit, bool handed_over, int64_t barriers);

 private:
  bool is_new_ = true, is_retried_ = false;
  bool is_sparse_ = false; // has few barriers for its time
  Duration threads_{0}, turns_{0}; // of runs each way; 0: unknown
  int wait_ = kFirstWait, next_wait_ = kFirstWait; // runs until the slower way is tried again

  static constexpr int kFirstWait = 8, kMostWait = 256;
};

// A program on this machine, with per-core state that is kept between runs.
struct Loaded {
  std::unique_ptr<Program> program;
  struct PerCore {
    std::vector<Slot> slots;
    const uint8_t* bases[4] = {}; // scratchpads that the slots were made for, by space
  };
  std::vector<PerCore> cores;
  ThreadChoice choice;
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

class Machine {
 public:
  // limits: bytes of each scratchpad by space; 0: unlimited. instructions: of one core in one run;
  // 0: unlimited.
  Machine(int32_t cores, bool checked, const int64_t (&limits)[4], uint64_t instructions);
  ~Machine();

  int32_t cores() const { return count_; }
  std::shared_ptr<Loaded> load(const void* image, size_t size);
  // Lets the thread of core 0 run the job, after those submitted before. Throws Error.
  void submit(std::shared_ptr<Job> job);
  // Runs the job on the calling thread, which is core 0 meanwhile. Throws Error in a forked
  // process.
  void run(Job& job);
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
  };

  void take_jobs();
  void follow(int32_t id);
  void start(Job& job);
  void run_part(int32_t id);
  void run_in_turns(ThreadChoice::Duration limit);
  void hand_over();
  bool report_faults(int32_t id, const std::function<void()>& run);
  void seat(Seat& seat, int32_t id);
  void collect_spans(Job& job);
  void finish(Job& job, uint64_t nanoseconds);

  const int32_t count_;
  const bool checked_;
  std::atomic<bool> records_spans_{false};
  int64_t limits_[4];
  const uint64_t most_instructions_;
  const int64_t process_;
  std::vector<std::unique_ptr<Seat>> seats_;
  Memory gsm_, arena_;
  Collectives collectives_;
  Team team_; // barriers of the program
  Team gate_; // the end of a job
  std::atomic<uint32_t> turn_{0}; // counts jobs; cores other than 0 wait for the next one
  bool handed_over_ = false; // the cores are in the middle of the job
  int64_t barriers_ = 0; // that the cores met in turns, and the end
  bool interrupted_ = false;
  Job* current_ = nullptr;
  std::unique_ptr<struct Shadow> shadow_;
  std::mutex fault_mutex_;
  std::string fault_;

  std::mutex running_; // held while a job runs
  mutable std::mutex mutex_; // may be acquired while `running_` is held
  std::atomic<uint32_t> posted_{0}; // counts submissions and closing
  bool closing_ = false;
  std::deque<std::shared_ptr<Job>> queue_;
  ftm_stats_data stats_{};
  std::vector<std::thread> threads_;
};

} // namespace ftm
