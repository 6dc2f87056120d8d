#include "program/machine.h"

#include "ftm_machine.h"
#include "support/gil.h"
#include "support/runtime.h"

#include <dlfcn.h>

#include <array>
#include <exception>
#include <mutex>
#include <span>
#include <stdexcept>

namespace ftm {
namespace {

struct MachineLibrary {
  decltype(&ftm_abi_version) abi_version;
  decltype(&ftm_open) open;
  decltype(&ftm_cores) cores;
  decltype(&ftm_load) load;
  decltype(&ftm_unload) unload;
  decltype(&ftm_input_count) input_count;
  decltype(&ftm_scalar_count) scalar_count;
  decltype(&ftm_output_count) output_count;
  decltype(&ftm_input_info) input_info;
  decltype(&ftm_scalar_info) scalar_info;
  decltype(&ftm_output_info) output_info;
  decltype(&ftm_arena_bytes) arena_bytes;
  decltype(&ftm_submit) submit;
  decltype(&ftm_wait) wait;
  decltype(&ftm_poll) poll;
  decltype(&ftm_interrupt) interrupt;
  // Null if the machine does not support them.
  decltype(&ftm_prepare) prepare;
  decltype(&ftm_run) run;
  decltype(&ftm_set_collectives) set_collectives;
  decltype(&ftm_leave_processors) leave_processors;
  decltype(&ftm_record_spans) record_spans;
  decltype(&ftm_job_spans) job_spans;
  decltype(&ftm_call_ops) call_ops;
};

struct Machine {
  std::mutex mutex; // of opening it
  MachineLibrary functions;
  // Never closed, since programs refer to it. Written last, under the mutex.
  std::atomic<ftm_machine*> handle{nullptr};
  std::mutex running_mutex;
  ftm_job* running = nullptr; // the job that interrupt_machine stops
  std::atomic<bool> interrupted{false}; // written under running_mutex
};

Machine& machine() {
  return part<Machine>();
}

// Status of ftm_wait.
constexpr int kIntact = 2, kInterrupted = 3, kCommunicated = 4;

template <typename Function>
void find_optional(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

template <typename Function>
void find_function(void* library, const char* name, Function& function) {
  find_optional(library, name, function);
  if (function == nullptr) {
    throw std::runtime_error(std::string("the machine library has no function ") + name);
  }
}

} // namespace

void open_machine(const std::string& path, int cores, bool checked, uint64_t instruction_limit) {
  std::lock_guard<std::mutex> guard(machine().mutex);
  if (machine().handle != nullptr) {
    return;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error("cannot load the machine library " + path + ": " + dlerror());
  }
  auto& f = machine().functions;
  find_function(library, "ftm_abi_version", f.abi_version);
  if (f.abi_version() != FTM_ABI_VERSION) {
    throw std::runtime_error(
        "the machine library " + path + " has interface version " +
        std::to_string(f.abi_version()) + ", this build needs " + std::to_string(FTM_ABI_VERSION) +
        ": rebuild it");
  }
  find_function(library, "ftm_open", f.open);
  find_function(library, "ftm_cores", f.cores);
  find_function(library, "ftm_load", f.load);
  find_function(library, "ftm_unload", f.unload);
  find_function(library, "ftm_input_count", f.input_count);
  find_function(library, "ftm_scalar_count", f.scalar_count);
  find_function(library, "ftm_output_count", f.output_count);
  find_function(library, "ftm_input_info", f.input_info);
  find_function(library, "ftm_scalar_info", f.scalar_info);
  find_function(library, "ftm_output_info", f.output_info);
  find_function(library, "ftm_arena_bytes", f.arena_bytes);
  find_function(library, "ftm_submit", f.submit);
  find_function(library, "ftm_wait", f.wait);
  find_function(library, "ftm_poll", f.poll);
  find_function(library, "ftm_interrupt", f.interrupt);
  find_optional(library, "ftm_prepare", f.prepare);
  find_optional(library, "ftm_run", f.run);
  find_optional(library, "ftm_set_collectives", f.set_collectives);
  find_optional(library, "ftm_leave_processors", f.leave_processors);
  find_optional(library, "ftm_record_spans", f.record_spans);
  find_optional(library, "ftm_job_spans", f.job_spans);
  find_optional(library, "ftm_call_ops", f.call_ops);
  ftm_config config{};
  config.struct_size = sizeof(config);
  config.cores = cores;
  config.checked = checked ? 1 : 0;
  config.instructions = instruction_limit;
  std::array<char, 1024> error{};
  machine().handle = f.open(&config, error.data(), error.size());
  if (machine().handle == nullptr) {
    throw std::runtime_error(std::string("cannot open the machine: ") + error.data());
  }
}

bool machine_is_open() {
  std::lock_guard<std::mutex> guard(machine().mutex);
  return machine().handle != nullptr;
}

int machine_cores() {
  return machine().functions.cores(machine().handle);
}

void leave_a_processor(bool leaves) {
  const auto& f = machine().functions;
  if (machine().handle != nullptr && f.leave_processors != nullptr) {
    f.leave_processors(machine().handle, leaves ? 1 : 0);
  }
}

namespace {

// Makes a job the one that interrupt_machine stops, for its lifetime. An interrupt that arrived
// before stops the job at once.
class InterruptibleJob {
 public:
  explicit InterruptibleJob(ftm_job* job) {
    std::lock_guard<std::mutex> guard(machine().running_mutex);
    machine().running = job;
    if (machine().interrupted) {
      machine().functions.interrupt(job);
    }
  }
  ~InterruptibleJob() {
    std::lock_guard<std::mutex> guard(machine().running_mutex);
    machine().running = nullptr;
  }
  InterruptibleJob(const InterruptibleJob&) = delete;
  InterruptibleJob& operator=(const InterruptibleJob&) = delete;
};

constexpr uint32_t kPollMilliseconds = 50;
// How long a signal handler may wait for a run that cannot be interrupted by it.
constexpr std::chrono::milliseconds kMaxSignalDelay{1};

// Polls until the job has ended. Returns the exception that a signal handler raised meanwhile, or
// null.
std::exception_ptr wait_with_signals(ftm_job* job) {
  std::exception_ptr raised;
  while (machine().functions.poll(job, kPollMilliseconds) == 0) {
    try {
      handle_signals();
    } catch (...) {
      raised = std::current_exception();
      machine().functions.interrupt(job);
    }
  }
  return raised;
}

void copy_spans(const ftm_job* job, std::vector<KernelSpan>* spans) {
  if (spans != nullptr && machine().functions.job_spans != nullptr) {
    const ftm_span* recorded = nullptr;
    const uint64_t count = machine().functions.job_spans(job, &recorded);
    spans->assign(recorded, recorded + count);
  }
}

// Runs a job on this thread, if `is_prepared`; otherwise the machine does. Waits until it has ended
// and returns its status. The job is freed.
int finish_job(
    ftm_job* job, bool is_prepared, InterruptedBy by, std::vector<KernelSpan>* spans,
    std::span<char> error) {
  std::exception_ptr raised;
  if (by == InterruptedBy::launcher) {
    const InterruptibleJob interruptible(job); // not longer: `wait` frees the job
    if (is_prepared) {
      machine().functions.run(job);
    } else {
      while (machine().functions.poll(job, /*milliseconds=*/1000) == 0) {
      }
    }
  } else if (is_prepared) {
    machine().functions.run(job);
  } else {
    raised = wait_with_signals(job);
  }
  copy_spans(job, spans);
  const int status = machine().functions.wait(job, error.data(), error.size());
  if (raised) {
    std::rethrow_exception(raised);
  }
  return status;
}

} // namespace

MachineProgram::MachineProgram(void* handle) : handle_(handle) {
  auto* program = static_cast<ftm_program*>(handle);
  const auto& f = machine().functions;
  arena_bytes_ = f.arena_bytes(program);
  const auto declarations = [&](auto count, auto get, std::vector<Declaration>& into) {
    for (int32_t i = 0; i < count(program); ++i) {
      ftm_tensor_info info{};
      get(program, i, &info);
      into.push_back({info.dtype, info.bytes});
    }
  };
  declarations(f.input_count, f.input_info, inputs_);
  declarations(f.scalar_count, f.scalar_info, scalars_);
  declarations(f.output_count, f.output_info, outputs_);
  for (int32_t i = 0; i < f.output_count(program); ++i) {
    ftm_tensor_info info{};
    f.output_info(program, i, &info);
    aliases_.push_back(info.alias);
  }
  const int64_t* words = nullptr;
  const uint64_t count = f.call_ops == nullptr ? 0 : f.call_ops(program, &words);
  for (uint64_t at = 0; at < count; at += 1 + static_cast<uint64_t>(words[at])) {
    kernel_calls_.emplace_back(words + at + 1, words + at + 1 + words[at]);
  }
}

MachineProgram::~MachineProgram() {
  machine().functions.unload(machine().handle, static_cast<ftm_program*>(handle_));
}

void MachineProgram::run(
    const std::vector<void*>& inputs, const std::vector<void*>& outputs,
    const std::vector<uint64_t>& scalars, void* arena, InterruptedBy by,
    std::vector<KernelSpan>* spans) const {
  const auto& f = machine().functions;
  auto* program = static_cast<ftm_program*>(handle_);
  std::array<char, 2048> error; // NOLINT(cppcoreguidelines-pro-type-member-init): 2 kB
  error[0] = '\0';
  const bool here =
      f.run != nullptr && (by == InterruptedBy::launcher || last_time() <= kMaxSignalDelay);
  const auto begin = std::chrono::steady_clock::now();
  ftm_job* job = here ? f.prepare(
                            machine().handle, program, inputs.data(), outputs.data(),
                            scalars.data(), arena, error.data(), error.size())
                      : f.submit(
                            machine().handle, program, inputs.data(), outputs.data(),
                            scalars.data(), arena, nullptr, nullptr, error.data(), error.size());
  const int status = job == nullptr ? kIntact : finish_job(job, here, by, spans, error);
  last_time_.store(std::chrono::steady_clock::now() - begin, std::memory_order_relaxed);
  if (status == kInterrupted) {
    throw MachineInterrupted(error.data());
  }
  if (status != 0) {
    throw MachineFault(
        std::string("the machine stopped: ") + error.data(),
        /*inputs_intact=*/status == kIntact || status == kCommunicated,
        /*is_repeatable=*/status == kIntact);
  }
}

void set_collectives(const ftm_collectives& collectives) {
  if (!machine_is_open()) {
    return; // programs run op by op
  }
  if (machine().functions.set_collectives == nullptr) {
    throw std::runtime_error("the machine has no collectives");
  }
  machine().functions.set_collectives(machine().handle, &collectives);
}

void record_spans(bool on) {
  if (machine_is_open() && machine().functions.record_spans != nullptr) {
    machine().functions.record_spans(machine().handle, on ? 1 : 0);
  }
}

void allow_runs() {
  std::lock_guard<std::mutex> guard(machine().running_mutex);
  machine().interrupted = false;
}

bool is_interrupted() {
  return machine().interrupted;
}

void interrupt_machine() {
  std::lock_guard<std::mutex> guard(machine().running_mutex);
  machine().interrupted = true;
  if (machine().running != nullptr) {
    machine().functions.interrupt(machine().running);
  }
}

std::unique_ptr<MachineProgram> load_program(const std::string& image) {
  if (!machine_is_open()) {
    throw std::runtime_error("no machine is open");
  }
  std::array<char, 1024> error{};
  auto* handle = machine().functions.load(
      machine().handle, image.data(), image.size(), error.data(), error.size());
  if (handle == nullptr) {
    throw std::runtime_error(std::string("the machine refused the program: ") + error.data());
  }
  return std::make_unique<MachineProgram>(handle);
}

} // namespace ftm
