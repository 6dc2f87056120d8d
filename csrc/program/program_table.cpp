#include "program/program_table.h"

#include "support/counters.h"
#include "support/strict_mode.h"
#include "program/single_flight.h"
#include "program/compile_client.h"
#include "program/program_signature.h"

#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

namespace ftm {
namespace {

// The longest unused is forgotten first: a shape that never comes back must not hold memory. Jobs
// keep their own.
struct ProgramTable {
  using Entry = std::pair<Hash128, ProgramPtr>;

  std::mutex mutex;
  size_t most = 256;
  size_t most_instance_bytes = size_t{32} << 20;
  size_t instance_bytes = 0;
  std::list<Entry> programs; // the last used first
  std::unordered_map<Hash128, std::list<Entry>::iterator, Hash128Hasher> by_hash;

  void keep(const Hash128& hash, ProgramPtr program) {
    const auto [found, added] = by_hash.try_emplace(hash);
    if (!added) {
      instance_bytes -= found->second->second->instance_bytes();
      programs.erase(found->second);
    }
    instance_bytes += program->instance_bytes();
    programs.emplace_front(hash, std::move(program));
    found->second = programs.begin();
    shrink();
  }
  ProgramPtr find(const Hash128& hash) {
    const auto found = by_hash.find(hash);
    if (found == by_hash.end()) {
      return nullptr;
    }
    programs.splice(programs.begin(), programs, found->second);
    return found->second->second;
  }
  // The last used one stays, however large.
  void shrink() {
    auto at = programs.end();
    while (programs.size() > most || instance_bytes > most_instance_bytes) {
      --at;
      if (at == programs.begin()) {
        return;
      }
      const size_t bytes = at->second->instance_bytes();
      if (programs.size() > most || bytes > 0) {
        by_hash.erase(at->first);
        instance_bytes -= bytes;
        at = programs.erase(at);
      }
    }
  }
  void clear() {
    by_hash.clear();
    programs.clear();
    instance_bytes = 0;
  }
};

ProgramTable& program_table() {
  static auto* table = new ProgramTable;
  return *table;
}

std::atomic<bool> machine_wanted{false};
std::atomic<bool> checked_mode{false};

// Why the machine does not take the image, or nothing.
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

ProgramPtr find_program(const Hash128& hash, const Graph& graph) {
  auto& table = program_table();
  ProgramPtr program;
  {
    std::lock_guard<std::mutex> guard(table.mutex);
    program = table.find(hash);
  }
  if (program && checked_mode) {
    TORCH_INTERNAL_ASSERT(
        trace_text(make_trace(graph)) == trace_text(program->trace()),
        "two traces share a structural hash: please report it, with both traces");
  }
  return program;
}

namespace {

Built compiled(const Trace& trace, CompileRequest& request) {
  Built built;
  built.program = std::make_shared<Program>(trace);
  if (machine_wanted) {
    static auto& failures = counter("compile_failures");
    if (request.trace_text.empty()) {
      request.trace_text = trace_text(trace);
    }
    CompileResult result = compile_in_python(request, "");
    const std::string refused = load_into(*built.program, result);
    if (!refused.empty()) { // perhaps a damaged file of the cache: made anew, it may be good
      result = compile_in_python(request, refused);
      result.error += load_into(*built.program, result);
    }
    if (result.interrupt) {
      built.interrupt = result.interrupt;
      return built;
    }
    if (!result.varies.empty()) {
      built.program->set_instance(std::move(result.varies), result.image.size());
    }
    if (!result.error.empty()) {
      failures.fetch_add(1);
      built.failure = result.error;
      built.program->set_failure(result.error);
    }
  }
  return built;
}

} // namespace

Built build_program(const Hash128& hash, const Trace& trace, CompileRequest request) {
  std::optional<SingleFlight> turn;
  try {
    turn.emplace(hash);
  } catch (const std::exception&) {
    return {nullptr, "", std::current_exception()};
  }
  auto& table = program_table();
  {
    const std::lock_guard<std::mutex> guard(table.mutex);
    if (auto program = table.find(hash)) { // another thread has built it meanwhile
      return {std::move(program), "", nullptr};
    }
  }
  Built built = compiled(trace, request);
  if (!built.interrupt) {
    const std::lock_guard<std::mutex> guard(table.mutex);
    table.keep(hash, built.program);
  }
  return built;
}

void note_op_by_op(const Program& program) {
  if (program.failure().empty()) {
    return; // programs are not compiled here
  }
  TORCH_CHECK(
      !is_strict(),
      "a program could not be compiled, and FTM_STRICT forbids to run it op by op on the CPU: ",
      program.failure());
  static auto& runs = counter("op_by_op_runs");
  runs.fetch_add(1);
}

void forget_programs() {
  auto& table = program_table();
  std::lock_guard<std::mutex> guard(table.mutex);
  table.clear();
}

void set_program_limit(int64_t programs, int64_t instance_bytes) {
  TORCH_CHECK_VALUE(programs >= 1, "at least one program must be kept in memory, got ", programs);
  TORCH_CHECK_VALUE(
      instance_bytes >= 0, "memory for instances is a number of bytes, got ", instance_bytes);
  auto& table = program_table();
  std::lock_guard<std::mutex> guard(table.mutex);
  table.most = static_cast<size_t>(programs);
  table.most_instance_bytes = static_cast<size_t>(instance_bytes);
  table.shrink();
}

int64_t program_count() {
  auto& table = program_table();
  std::lock_guard<std::mutex> guard(table.mutex);
  return static_cast<int64_t>(table.programs.size());
}

void use_machine(bool use) {
  if (machine_wanted.exchange(use) != use) {
    forget_programs();
  }
}

bool uses_machine() {
  return machine_wanted;
}

void set_checked(bool checked) {
  checked_mode = checked;
}

bool is_checked() {
  return checked_mode;
}

} // namespace ftm
