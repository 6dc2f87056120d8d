#include "machine.h"

#include <unistd.h>

#ifdef __x86_64__
#include <immintrin.h>
#else
#include <cfenv>
#endif

#include <algorithm>
#include <chrono>
#include <utility>

#include "checker.h"
#include "isa_gen.h"

namespace ftm {
namespace {

using Clock = std::chrono::steady_clock;

// A program that takes no longer in turns is not tried in threads.
constexpr std::chrono::microseconds kShort(300);
// Unless it takes this long between two barriers. Example: one thread sums the rows of 8 MB in 80
// microseconds, two in 40.
constexpr std::chrono::microseconds kSparse(30);
// A program that takes longer always has a thread for each core: waiting at barriers is little of
// its time, and one slow run, as when another process starts, must not leave it to one thread.
constexpr std::chrono::milliseconds kLong(5);
constexpr ThreadChoice::Duration kUnknown = ThreadChoice::Duration::zero();

constexpr const char* kForked =
    "the machine was opened in another process: open one after the fork";
constexpr const char* kDeserted =
    "waits at a BARRIER that another core never reaches: that one has ended";

#ifdef __x86_64__
// Only the register of the vector units: fesetenv would also set the x87 unit, which no code of the
// machine uses, and that takes longer than a small kernel.
using Rounding = unsigned int;
Rounding default_rounding() {
  const Rounding callers = _mm_getcsr();
  constexpr Rounding kDefault = 0x1f80; // all exceptions masked
  _mm_setcsr(kDefault);
  return callers;
}
void restore_rounding(Rounding callers) {
  _mm_setcsr(callers);
}
#else
using Rounding = fenv_t;
Rounding default_rounding() {
  Rounding callers;
  fegetenv(&callers);
  fesetenv(FE_DFL_ENV);
  return callers;
}
void restore_rounding(const Rounding& callers) {
  fesetenv(&callers);
}
#endif

// Rounds to nearest and keeps denormals, for its lifetime. The caller of a run may have changed
// both (torch.set_flush_denormal), and results must not depend on the thread.
class DefaultRounding {
 public:
  DefaultRounding() : callers_(default_rounding()) {}
  ~DefaultRounding() { restore_rounding(callers_); }
  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

 private:
  const Rounding callers_;
};

} // namespace

ThreadChoice::Duration ThreadChoice::limit() {
  if (is_new_) return kShort;
  if (threads_ == kUnknown) return turns_ == kUnknown || is_sparse_ ? kUnknown : kShort;
  if (threads_ > kLong) return kUnknown;
  if (turns_ == kUnknown) return threads_;
  const bool are_turns_faster = turns_ <= threads_;
  if (--wait_ < 0) {
    wait_ = next_wait_;
    next_wait_ = std::min(2 * next_wait_, kMostWait);
    is_retried_ = true;
    return are_turns_faster ? kUnknown : threads_;
  }
  return are_turns_faster ? std::max<Duration>(threads_ * 3 / 2, kShort) : kUnknown;
}

void ThreadChoice::note(Duration time, Duration limit, bool handed_over, int64_t barriers) {
  const bool is_first = std::exchange(is_retried_, false); // the load may be another one now
  const auto mix = [&](Duration& mean) {
    mean = is_first || mean == kUnknown || mean == Duration::max() ? time : (mean * 3 + time) / 4;
  };
  if (limit == kUnknown) {
    mix(threads_);
  } else if (!handed_over) {
    is_sparse_ = time >= kSparse * barriers;
    mix(turns_);
  } else if (!is_new_) {
    if (turns_ != kUnknown && turns_ <= threads_) wait_ = next_wait_ = kFirstWait; // an accident?
    turns_ = threads_ == kUnknown ? kUnknown : Duration::max();
  }
  is_new_ = false;
}

void wait_for_team(Core& core) {
  switch (core.team->meet()) {
    case Team::Met::all: break;
    case Team::Met::deserted: throw Fault(kDeserted);
    case Team::Met::given_up: throw Fault(""); // the core that failed reports the reason
  }
  if (core.checker) core.checker->next_epoch();
}

Machine::Machine(int32_t cores, bool checked, const int64_t (&limits)[4], uint64_t instructions)
    : count_(cores),
      checked_(checked),
      most_instructions_(instructions ? instructions : UINT64_MAX),
      process_(getpid()),
      team_(uint32_t(cores)),
      gate_(uint32_t(cores)) {
  for (int k = 0; k < 4; ++k) limits_[k] = limits[k];
  stats_.struct_size = sizeof stats_;
  for (int32_t id = 0; id < cores; ++id) seats_.push_back(std::make_unique<Seat>());
  threads_.emplace_back([this] { take_jobs(); });
  for (int32_t id = 1; id < cores; ++id) threads_.emplace_back([this, id] { follow(id); });
}

Machine::~Machine() {
  if (!at_home()) {
    // The threads are in the parent process; there are none to join here.
    for (std::thread& t : threads_) t.detach();
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    posted_.fetch_add(1);
  }
  wake_all(posted_);
  for (std::thread& t : threads_) t.join();
}

bool Machine::at_home() const {
  return getpid() == process_;
}

std::shared_ptr<Loaded> Machine::load(const void* image, size_t size) {
  auto loaded = std::make_shared<Loaded>();
  loaded->program = load_image(image, size);
  loaded->cores.resize(size_t(count_));
  const char* const names[4] = {"", "AM", "SM", "GSM"};
  for (int space = 1; space < 4; ++space) {
    const int64_t need = loaded->program->space_bytes[space];
    if (limits_[space] > 0 && need > limits_[space])
      throw Error(
          "the program needs " + std::to_string(need) + " bytes of " + names[space] +
          ", the machine has " + std::to_string(limits_[space]));
  }
  return loaded;
}

void Machine::submit(std::shared_ptr<Job> job) {
  if (!at_home()) throw Error(kForked);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) throw Error("the machine is closed");
    queue_.push_back(std::move(job));
    posted_.fetch_add(1);
  }
  wake_all(posted_);
}

ftm_stats_data Machine::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

// Core 0's thread takes jobs from the queue.
void Machine::take_jobs() {
  for (;;) {
    std::shared_ptr<Job> job;
    uint32_t seen;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      seen = posted_.load();
      if (!queue_.empty()) {
        job = std::move(queue_.front());
        queue_.pop_front();
      } else if (closing_) {
        break;
      }
    }
    if (!job) {
      wait_while(posted_, seen);
      continue;
    }
    run(*job);
  }
  const std::lock_guard<std::mutex> lock(running_);
  current_ = nullptr;
  turn_.fetch_add(1, std::memory_order_release);
  wake_all(turn_);
}

// Runs a job; the calling thread is core 0 meanwhile.
void Machine::run(Job& job) {
  if (!at_home()) throw Error(kForked);
  const std::lock_guard<std::mutex> lock(running_);
  const DefaultRounding rounding;
  const auto before = Clock::now();
  fault_.clear();
  interrupted_ = false;
  try {
    start(job);
  } catch (const std::exception& e) {
    fault_ = e.what();
  }
  ThreadChoice& choice = job.loaded->choice;
  // In turns, a span of one core would contain the time of others.
  const bool may_take_turns = count_ > 1 && !checked_ && !seats_[0]->spans;
  const auto limit = may_take_turns ? choice.limit() : kUnknown;
  if (fault_.empty()) {
    if (limit > kUnknown) {
      run_in_turns(limit);
    } else {
      turn_.fetch_add(1, std::memory_order_release);
      wake_all(turn_);
      run_part(0);
      gate_.meet();
    }
  }
  collectives_.end_run(/*has_failed=*/!fault_.empty());
  const auto time = Clock::now() - before;
  choice.note(time, limit, handed_over_, barriers_);
  finish(job, uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
}

void Machine::follow(int32_t id) {
  for (uint32_t seen = 0;; ++seen) {
    wait_while(turn_, seen);
    if (!current_) return;
    run_part(id);
    gate_.meet();
  }
}

void Machine::start(Job& job) {
  const Program& program = *job.loaded->program;
  team_.reset();
  handed_over_ = false;
  uint8_t* gsm = gsm_.ensure(program.space_bytes[3] + 1);
  uint8_t* arena = job.arena ? job.arena : arena_.ensure(program.arena_bytes + 1);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferDecl& b = program.buffers[i];
    if (b.kind == isa::FTM_BUFFER_ARENA) job.buffers[i] = arena + b.offset;
    if (b.kind == isa::FTM_BUFFER_GSM) job.buffers[i] = gsm + b.offset;
  }
  shadow_ = checked_ ? std::make_unique<Shadow>(program, job.buffers.data()) : nullptr;
  const bool records = records_spans_;
  for (size_t id = 0; id < seats_.size(); ++id) {
    seats_[id]->spans.reset();
    if (records) seats_[id]->spans.emplace(int32_t(id));
  }
  current_ = &job;
}

void Machine::seat(Seat& seat, int32_t id) {
  Job& job = *current_;
  const Program& program = *job.loaded->program;
  Core& core = seat.core;
  core.program = &program;
  core.id = id;
  core.count = count_;
  core.team = &team_;
  core.collectives = &collectives_;
  seat.views.resize(program.buffers.size());
  for (size_t i = 0; i < seat.views.size(); ++i)
    seat.views[i] = {
        job.buffers[i], program.buffers[i].elements, int32_t(i), job.donated[i] != 0, 0};
  core.views = seat.views.data();
  core.phase = &job.phase;
  core.spans = seat.spans ? &*seat.spans : nullptr;
  core.most_instructions = most_instructions_;
  core.strips = seat.strips.ensure(program.strip_bytes + 1);
  seat.registers.assign(size_t(program.registers()), 0);
  std::copy(job.scalars.begin(), job.scalars.end(), seat.registers.begin() + 64);
  seat.registers[size_t(program.one_register())] = 1;
  core.r = seat.registers.data();
  core.turns = nullptr;
  core.at = program.entry;
  core.executed = 0;
  core.returns.clear();

  const uint8_t* bases[4] = {
      nullptr, seat.am.ensure(program.space_bytes[1] + 1),
      seat.sm.ensure(program.space_bytes[2] + 1), gsm_.data()};
  Loaded::PerCore& mine = job.loaded->cores[size_t(id)];
  if (checked_ || mine.slots.empty() || !std::equal(bases, bases + 4, mine.bases)) {
    mine.slots.assign(size_t(program.slots), Slot{});
    for (const TileDecl& t : program.tiles)
      for (int32_t k = 0; k < t.depth; ++k)
        mine.slots[size_t(t.first_slot) + size_t(k)] = {
            const_cast<uint8_t*>(bases[t.space]) + t.offset + k * t.slot_bytes, 0, 0};
    std::copy(bases, bases + 4, mine.bases);
  }
  core.slots = mine.slots.data();
  core.packed.slot = nullptr; // another program may have the same slots
}

// Runs a core's part in its own thread.
void Machine::run_part(int32_t id) {
  Seat& mine = *seats_[size_t(id)];
  Core& core = mine.core;
  std::unique_ptr<Checker> checker;
  const bool is_done = report_faults(id, [&] {
    if (!handed_over_) {
      seat(mine, id);
      if (checked_) checker = std::make_unique<Checker>(core, *shadow_);
      core.checker = checker.get();
      // Slots of GSM tiles are those of core 0, so they must exist before any core starts.
      if (team_.meet() != Team::Met::all) return;
      core.shared_slots = seats_[0]->core.slots;
    }
    run_core(core);
    team_.leave();
  });
  if (!is_done) team_.give_up();
}

// Runs all cores in this thread, in turns; if that takes longer than `limit`, core 0 alone.
void Machine::run_in_turns(ThreadChoice::Duration limit) {
  Turns turns{Clock::now() + limit, [this] { hand_over(); }};
  for (int32_t id = 0; id < count_; ++id) {
    const auto prepare = [&] {
      Core& core = seats_[size_t(id)]->core;
      seat(*seats_[size_t(id)], id);
      core.checker = nullptr;
      core.shared_slots = seats_[0]->core.slots;
      core.turns = &turns;
    };
    if (!report_faults(id, prepare)) return;
  }
  barriers_ = 0;
  for (int32_t ended = 0; ended == 0; ++barriers_) {
    for (int32_t id = 0; id < count_; ++id) {
      Core& core = seats_[size_t(id)]->core;
      Progress progress{};
      const bool is_done = report_faults(id, [&] {
        progress = run_core(core);
        if (progress == Progress::at_barrier && ended > 0) throw Fault(kDeserted);
        if (handed_over_) team_.leave();
      });
      if (handed_over_) {
        if (!is_done) team_.give_up();
        gate_.meet();
        return;
      }
      if (!is_done) return;
      ended += progress == Progress::ended;
    }
    if (ended == 0 && Clock::now() > turns.end) {
      hand_over();
      run_part(0);
      gate_.meet();
      return;
    }
    if (ended > 0 && ended < count_) report_faults(0, [] { throw Fault(kDeserted); });
  }
}

// Lets the other cores go on in their threads.
void Machine::hand_over() {
  for (auto& seat : seats_) seat->core.turns = nullptr;
  handed_over_ = true;
  turn_.fetch_add(1, std::memory_order_release);
  wake_all(turn_);
}

// Calls `run` for a core; returns false if it throws, which is then the run's fault unless there is
// one already.
bool Machine::report_faults(int32_t id, const std::function<void()>& run) {
  std::string message;
  bool interrupted = false;
  try {
    run();
    return true;
  } catch (const Fault& fault) {
    message = fault.what();
    if (message.empty()) return true; // another core has failed
    const Core& core = seats_[size_t(id)]->core;
    interrupted = dynamic_cast<const Interrupted*>(&fault) != nullptr;
    message = core.program->where(core.step) + ": core " + std::to_string(id) + " " + message;
  } catch (const std::bad_alloc&) {
    message = "out of memory";
  }
  std::lock_guard<std::mutex> lock(fault_mutex_);
  if (fault_.empty()) {
    fault_ = message;
    interrupted_ = interrupted;
  }
  return false;
}

// Moves the cores' spans to the job, with calls numbered from main's first one.
void Machine::collect_spans(Job& job) {
  const int32_t first = job.loaded->program->first_call;
  for (auto& seat : seats_) {
    if (!seat->spans) continue;
    for (ftm_span span : seat->spans->spans()) {
      if (span.call != FTM_BARRIER) span.call -= first;
      job.spans.push_back(span);
    }
    seat->spans.reset();
  }
}

void Machine::finish(Job& job, uint64_t nanoseconds) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.jobs;
    stats_.faults += !fault_.empty() && !interrupted_;
    stats_.nanoseconds += nanoseconds;
    for (auto& s : seats_) {
      Counters& c = s->core.counters;
      stats_.instructions += c.instructions;
      stats_.dma_bytes += c.dma_bytes;
      stats_.mm_flops += c.mm_flops;
      stats_.map_elements += c.map_elements;
      c = Counters{};
    }
  }
  collect_spans(job);
  if (job.done) job.done(job.user, fault_.empty() ? 0 : 1, fault_.c_str());
  {
    std::lock_guard<std::mutex> lock(job.mutex);
    job.fault = fault_;
    job.interrupted = interrupted_;
    job.ended = true;
  }
  job.changed.notify_all();
}

} // namespace ftm
