#include "program/program_table.h"

#include "support/counters.h"
#include "support/strict_mode.h"
#include "program/compile_client.h"
#include "program/check_signature.h"
#include "program/recorded_trace.h"
#include "support/runtime.h"

#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace ftm {
namespace {

// Least-recently-used cache of programs, so that shapes that never recur do not accumulate. Running
// jobs keep their programs alive.
struct ProgramTable {
  using Entry = std::pair<Hash128, ProgramPtr>;

  static constexpr LockRank kLockRank = LockRank::programs;
  std::mutex mutex; // no other lock is acquired while it is held
  size_t capacity = 256;
  size_t max_specialization_bytes = size_t{32} << 20;
  size_t specialization_bytes = 0;
  std::list<Entry> programs; // the most recently used first
  std::unordered_map<Hash128, std::list<Entry>::iterator, Hash128Hasher> by_hash;

  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
  void insert(const Hash128& hash, ProgramPtr program) {
    const auto [found, added] = by_hash.try_emplace(hash);
    if (!added) {
      specialization_bytes -= found->second->second->specialization_bytes();
      programs.erase(found->second);
    }
    specialization_bytes += program->specialization_bytes();
    programs.emplace_front(hash, std::move(program));
    found->second = programs.begin();
    evict();
  }
  ProgramPtr find(const Hash128& hash) {
    const auto found = by_hash.find(hash);
    if (found == by_hash.end()) {
      return nullptr;
    }
    programs.splice(programs.begin(), programs, found->second);
    return found->second->second;
  }
  // Evicts down to both limits, but never the most recently used program.
  void evict() {
    auto at = programs.end();
    while (programs.size() > capacity || specialization_bytes > max_specialization_bytes) {
      --at;
      if (at == programs.begin()) {
        return;
      }
      const size_t bytes = at->second->specialization_bytes();
      if (programs.size() > capacity || bytes > 0) {
        by_hash.erase(at->first);
        specialization_bytes -= bytes;
        at = programs.erase(at);
      }
    }
  }
  void reset() {
    std::list<Entry> dropped; // destroyed without the lock
    const std::lock_guard<std::mutex> guard(mutex);
    by_hash.clear();
    dropped.swap(programs);
    specialization_bytes = 0;
  }
};

std::atomic<bool> machine_enabled{false};
std::atomic<bool> checked_mode{false};

// Loads the compiled image. Returns why the machine rejects it, or "".
std::string load_into(Program& program, const CompileResult& compiled) {
  if (compiled.error.empty() && !compiled.interrupt) {
    try {
      auto loaded = load_program(compiled.image);
      check_signature(*loaded, program.trace());
      program.set_machine(std::move(loaded));
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  return {};
}

} // namespace

Program::Program(Trace trace) : trace_(std::move(trace)) {
  for (size_t i = 0; i < trace_.parameters.size(); ++i) {
    parameter_shapes_.emplace_back(trace_.parameters[i].dtype, trace_.parameters[i].sizes);
    parameter_names_.push_back("%" + std::to_string(i));
  }
  if (!trace_.result_types.empty()) {
    result_shape_ = torch::lazy::Shape(trace_.result_types[0].dtype, trace_.result_types[0].sizes);
  }
}

int Program::parameters_size() const {
  return static_cast<int>(parameter_shapes_.size());
}

const std::vector<torch::lazy::Shape>& Program::parameter_shapes() const {
  return parameter_shapes_;
}

const std::vector<std::string>& Program::parameter_names() const {
  return parameter_names_;
}

const torch::lazy::Shape& Program::result_shape() const {
  return result_shape_;
}

const std::string Program::to_string() const {
  return trace_text(trace_);
}

ProgramPtr find_program(const Hash128& hash) {
  auto& table = part<ProgramTable>();
  const std::lock_guard<std::mutex> guard(table.mutex);
  return table.find(hash);
}

ProgramPtr find_program(const Hash128& hash, const Graph& graph) {
  auto program = find_program(hash);
  if (program && checked_mode) {
    TORCH_INTERNAL_ASSERT(
        make_trace(graph) == program->trace(),
        "two traces share a structural hash: please report it, with both traces");
  }
  return program;
}

void add_program(const Hash128& hash, ProgramPtr program) {
  auto& table = part<ProgramTable>();
  const std::lock_guard<std::mutex> guard(table.mutex);
  table.insert(hash, std::move(program));
}

BuildResult compile_program(const CompileRequest& request) {
  BuildResult built;
  auto program = std::make_shared<Program>(request.trace);
  if (machine_enabled) {
    static auto& failures = counter("compile_failures");
    CompileResult result = compile_in_python(request, "");
    const std::string rejection = load_into(*program, result);
    if (!rejection.empty()) { // the cached file may be damaged: let the compiler make it again
      result = compile_in_python(request, rejection);
      result.error += load_into(*program, result);
    }
    if (result.interrupt) {
      built.interrupt = result.interrupt;
      return built;
    }
    if (!result.varying_dims.empty()) {
      program->set_specialization(std::move(result.varying_dims), result.image.size());
    }
    if (!result.error.empty()) {
      failures.fetch_add(1);
      built.failure = result.error;
      program->set_failure(result.error);
    }
  }
  built.program = std::move(program);
  return built;
}

void count_op_by_op_run(const Program& program) {
  if (program.failure().empty()) {
    return; // no machine: op by op is the only mode
  }
  TORCH_CHECK(
      !is_strict(),
      "a program could not be compiled, and FTM_STRICT forbids to run it op by op on the CPU: ",
      program.failure());
  static auto& runs = counter("op_by_op_runs");
  runs.fetch_add(1);
}

void set_program_limit(int64_t programs, int64_t specialization_bytes) {
  TORCH_CHECK_VALUE(programs >= 1, "at least one program must be kept in memory, got ", programs);
  TORCH_CHECK_VALUE(
      specialization_bytes >= 0, "memory for instances is a number of bytes, got ",
      specialization_bytes);
  auto& table = part<ProgramTable>();
  std::lock_guard<std::mutex> guard(table.mutex);
  table.capacity = static_cast<size_t>(programs);
  table.max_specialization_bytes = static_cast<size_t>(specialization_bytes);
  table.evict();
}

int64_t program_count() {
  auto& table = part<ProgramTable>();
  std::lock_guard<std::mutex> guard(table.mutex);
  return static_cast<int64_t>(table.programs.size());
}

void use_machine(bool use) {
  if (machine_enabled.exchange(use) != use) {
    part<ProgramTable>().reset();
  }
}

bool uses_machine() {
  return machine_enabled;
}

void set_checked(bool checked) {
  checked_mode = checked;
}

bool is_checked() {
  return checked_mode;
}

} // namespace ftm
