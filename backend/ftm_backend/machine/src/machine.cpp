#include "machine.h"

#include <sched.h>
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

// Followers are woken for a job that takes one thread longer than this. Waking one takes its leader
// some microseconds, and the follower begins about 40 later.
constexpr std::chrono::microseconds kLong(100);

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

int32_t usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, 256);
}

Machine::Machine(int32_t cores, bool checked, const int64_t (&limits)[4], uint64_t instructions)
    : count_(cores),
      thread_count_(std::min(cores, usable_processors())),
      checked_(checked),
      most_instructions_(instructions ? instructions : UINT64_MAX),
      process_(getpid()),
      supersteps_(cores) {
  for (int k = 0; k < 4; ++k) limits_[k] = limits[k];
  leave_processors(0);
  stats_.struct_size = sizeof stats_;
  for (int32_t id = 0; id < cores; ++id) seats_.push_back(std::make_unique<Seat>());
  threads_.emplace_back([this] { take_jobs(); });
  for (int32_t k = 1; k < thread_count_; ++k) threads_.emplace_back([this, k] { follow(k); });
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
  }
  posted_.notify();
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
  }
  posted_.notify();
}

void Machine::leave_processors(int32_t count) {
  static const int32_t processors = usable_processors();
  most_threads_.store(std::clamp(processors - count, 1, thread_count_), std::memory_order_relaxed);
}

ftm_stats_data Machine::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

// The machine's first thread takes jobs from the queue.
void Machine::take_jobs() {
  for (;;) {
    std::shared_ptr<Job> job;
    const uint32_t seen = posted_.now();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!queue_.empty()) {
        job = std::move(queue_.front());
        queue_.pop_front();
      } else if (closing_) {
        break;
      }
    }
    if (job) run(*job);
    else posted_.wait(seen);
  }
  const std::lock_guard<std::mutex> lock(running_);
  supersteps_.end(); // followers see that the machine is closing
  spare_.notify();
}

void Machine::follow(int32_t thread) {
  for (;;) {
    const uint32_t seen = spare_.now();
    const uint32_t number = supersteps_.number();
    if (closing_ && !supersteps_.are_running()) return;
    if (thread >= most_threads_) {
      supersteps_.wake(); // this thread may have opened one, while the leader slept
      spare_.sleep(seen);
      continue;
    }
    const int32_t id = supersteps_.claim(number, /*preferred=*/thread);
    if (id >= 0) run_part(id);
    else supersteps_.wait(number);
  }
}

void Machine::run(Job& job) {
  if (!at_home()) throw Error(kForked);
  const std::lock_guard<std::mutex> lock(running_);
  const DefaultRounding rounding;
  began_ = Clock::now();
  fault_.clear();
  interrupted_ = false;
  try {
    start(job);
    lead(job);
  } catch (const std::exception& e) {
    fault_ = e.what();
  }
  collectives_.end_run(/*has_failed=*/!fault_.empty());
  const auto time = Clock::now() - began_;
  finish(job, uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
}

// Runs the parts of the job that no other thread runs, and waits for the others.
void Machine::lead(Job& job) {
  int64_t parts = 0;
  const uint32_t first = supersteps_.number() + 1;
  open_superstep();
  for (;;) {
    const uint32_t number = supersteps_.number();
    if (!supersteps_.are_running()) {
      const auto all_parts = int64_t(number - first) * count_;
      job.loaded->work = (Clock::now() - began_) / std::max<int64_t>(parts, 1) * all_parts;
      return;
    }
    const int32_t id = supersteps_.claim(number, /*preferred=*/0);
    if (id < 0) {
      supersteps_.wait(number);
      continue;
    }
    run_part(id);
    ++parts;
  }
}

void Machine::start(Job& job) {
  const Program& program = *job.loaded->program;
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
    seats_[id]->is_prepared = false;
  }
  current_ = &job;
  ended_ = 0;
  // Spans show waits at barriers, and a follower that sleeps would prolong them.
  is_long_ = records || job.loaded->work > kLong;
  prepare(*seats_[0], 0); // slots of GSM tiles are those of core 0
}

void Machine::prepare(Seat& seat, int32_t id) {
  Job& job = *current_;
  const Program& program = *job.loaded->program;
  Core& core = seat.core;
  core.program = &program;
  core.id = id;
  core.count = count_;
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
  core.at = program.entry;
  core.is_at_barrier = false;
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
  core.shared_slots = seats_[0]->core.slots;
  core.packed.slot = nullptr; // another program may have the same slots
  seat.checker = checked_ ? std::make_unique<Checker>(core, *shadow_) : nullptr;
  core.checker = seat.checker.get();
  seat.is_prepared = true;
}

// Runs a core's part of the current superstep.
void Machine::run_part(int32_t id) {
  Seat& seat = *seats_[size_t(id)];
  Progress progress = Progress::ended;
  report_faults(id, [&] {
    if (!seat.is_prepared) prepare(seat, id);
    progress = run_core(seat.core);
  });
  if (progress == Progress::ended) ended_.fetch_add(1, std::memory_order_relaxed);
  if (supersteps_.finish_part()) end_superstep();
}

// Called by the thread that has run the last part.
void Machine::end_superstep() {
  const int32_t ended = ended_.load(std::memory_order_relaxed);
  if (ended == 0) {
    open_superstep();
    return;
  }
  for (int32_t id = 0; ended < count_ && id < count_; ++id) {
    if (!seats_[size_t(id)]->core.is_at_barrier) continue;
    report_faults(id, [] { throw Fault(kDeserted); }); // unless a core has failed
  }
  supersteps_.end();
}

void Machine::open_superstep() {
  is_long_ = is_long_ || Clock::now() - began_ > kLong;
  const bool wakes = is_long_; // read before another thread may open the next superstep
  supersteps_.open(wakes);
  if (wakes && most_threads_.load(std::memory_order_relaxed) == thread_count_) spare_.notify();
}

// Calls `run` for a core. What it throws is the job's fault unless there is one already.
void Machine::report_faults(int32_t id, const std::function<void()>& run) {
  std::string message;
  bool interrupted = false;
  try {
    run();
    return;
  } catch (const Fault& fault) {
    const Core& core = seats_[size_t(id)]->core;
    interrupted = dynamic_cast<const Interrupted*>(&fault) != nullptr;
    message = core.program->where(core.step) + ": core " + std::to_string(id) + " " + fault.what();
  } catch (const std::bad_alloc&) {
    message = "out of memory";
  }
  std::lock_guard<std::mutex> lock(fault_mutex_);
  if (fault_.empty()) {
    fault_ = message;
    interrupted_ = interrupted;
  }
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
