#include "compile/compile_units.h"

#include "graph/source_location.h"
#include "support/counters.h"
#include "support/strict_mode.h"
#include "execute/first_run_observer.h"
#include "execute/launcher.h"
#include "program/program_table.h"
#include "partition/choose_symbols.h"
#include "partition/varying_dims.h"
#include "support/runtime.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_set>

namespace ftm {
namespace {

using Units = c10::ArrayRef<LaunchUnit>;

// Reasons why programs could not be compiled. The thread that waits for a result reports them as
// warnings, not the one that compiles.
struct CompileWarnings {
  std::mutex mutex; // acquired alone
  std::vector<std::string> pending;
};

// Completes the request of a unit: which sizes are symbols, and the line of each call if
// all lines are noted. The compiler's explanations of recompiles use them.
void complete_request(LaunchUnit& unit) {
  auto& request = unit.request;
  if (notes_all_locations()) {
    request.locations = unit.job->origin.lines(request.trace.calls.size());
  }
  if (request.any_size) {
    // A fill has no parameters; its result has any size.
    request.trains = !request.trace.parameters.empty();
  }
  request.symbols =
      choose_symbols(request.trace, unit.job->inputs, {request.trains, request.any_size});
}

// Whether the unit is a constant fill of an optimizer's first step, for which one program serves
// all sizes.
bool is_fill(const LaunchUnit& unit) {
  return unit.request.any_size && unit.job->inputs.empty();
}

// Marks the dimensions of a dynamic-shape program's results that may differ in its next run. Not
// for fills: an optimizer's state keeps its size.
void set_varying_results(const LaunchUnit& unit, const Program& program) {
  if (is_fill(unit)) {
    return;
  }
  const auto& job = *unit.job;
  const auto& varying = program.varying_dims();
  for (size_t i = 0; i < std::min(varying.size(), job.outputs.size()); ++i) {
    job.outputs[i]->set_varying_dims(
        varying_outside(varying[i], program.trace().result_types[i], *job.outputs[i]));
  }
}

// Whether the results of a program have fixed sizes, whatever the compiler makes of the request.
bool has_fixed_results(const LaunchUnit& unit) {
  const auto& request = unit.request;
  return is_fill(unit) || (!request.any_size && request.trains && request.symbols.symbols.empty());
}

// If several programs are to be compiled, announces those to the compiler whose requests do not
// depend on the outcome of another compilation. Returns which units were announced; their requests
// are complete.
std::vector<bool> announce(std::vector<LaunchUnit>& units) {
  std::vector<bool> announced(units.size());
  std::unordered_set<Hash128, Hash128Hasher> missing;
  for (const auto& unit : units) {
    if (!unit.program) {
      missing.insert(unit.request.hash);
    }
  }
  if (missing.size() < 2 || !uses_machine()) {
    return announced;
  }
  std::vector<const CompileRequest*> requests;
  // Results whose varying dimensions are known only after compilation.
  std::unordered_set<const Buffer*> undecided;
  for (size_t i = 0; i < units.size(); ++i) {
    auto& unit = units[i];
    const auto is_undecided = [&](const Input& input) {
      return undecided.count(input.buffer.get()) != 0;
    };
    if (unit.program) {
      set_varying_results(unit, *unit.program);
      continue;
    }
    const bool is_dependent =
        !unit.request.any_size &&
        std::any_of(unit.job->inputs.begin(), unit.job->inputs.end(), is_undecided);
    if (!is_dependent) {
      complete_request(unit);
    }
    if (is_dependent || !has_fixed_results(unit)) {
      for (const auto& output : unit.job->outputs) {
        undecided.insert(output.get());
      }
    }
    if (!is_dependent && missing.erase(unit.request.hash) != 0) {
      requests.push_back(&unit.request);
      announced[i] = true;
    }
  }
  announce_to_python(requests);
  return announced;
}

// Completes these jobs with an error instead of running them, so that no thread waits for them
// forever.
FailurePtr abandon_all(Units units, const std::exception& error) {
  auto failure = failure_from(error, "(while a program was launched on device ftm)");
  for (const auto& unit : units) {
    abandon(unit.job, failure);
  }
  return failure;
}

FailurePtr abandon_all(Units units, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return abandon_all(units, exception);
  } catch (...) {
    return abandon_all(
        units, std::runtime_error("the launch was ended by an exception of an unknown type"));
  }
}

std::vector<LaunchUnit> move_from(std::vector<LaunchUnit>& units, size_t first) {
  return {
      std::make_move_iterator(units.begin() + static_cast<std::ptrdiff_t>(first)),
      std::make_move_iterator(units.end())};
}

} // namespace

bool are_built(const std::vector<LaunchUnit>& units) {
  return std::all_of(
      units.begin(), units.end(), [](const LaunchUnit& unit) { return unit.program != nullptr; });
}

BuildOutcome build_and_start(std::vector<LaunchUnit> units) {
  static auto& hits = counter("cache_hits_memory");
  BuildOutcome outcome;
  size_t i = 0;
  try {
    const auto announced = announce(units);
    for (; i < units.size(); ++i) {
      BuildResult built{units[i].program, {}, {}};
      if (built.program) {
        hits.fetch_add(1);
      } else {
        if (!announced[i]) {
          complete_request(units[i]);
        }
        built = build_program(units[i].request);
      }
      if (built.interrupt) {
        outcome.not_built = move_from(units, i);
        outcome.error = built.interrupt;
        return outcome;
      }
      if (!built.failure.empty() && !is_strict()) {
        const std::lock_guard<std::mutex> guard(part<CompileWarnings>().mutex);
        part<CompileWarnings>().pending.push_back(std::move(built.failure));
      }
      set_varying_results(units[i], *built.program);
      try {
        start_observed(units[i].job, built.program);
      } catch (...) { // this job runs or has failed; only the later ones are left
        outcome.error = std::current_exception();
        outcome.failure = abandon_all(Units(units).slice(i, 1), outcome.error);
        outcome.not_built = move_from(units, i + 1);
        return outcome;
      }
      units[i] = LaunchUnit(); // so that the job's buffers are freed as soon as it ends
    }
  } catch (...) {
    outcome.error = std::current_exception();
    outcome.failure = abandon_all(Units(units).slice(i), outcome.error);
  }
  return outcome;
}

void warn_of_compile_failures() {
  std::vector<std::string> pending;
  {
    const std::lock_guard<std::mutex> guard(part<CompileWarnings>().mutex);
    pending.swap(part<CompileWarnings>().pending);
  }
  for (const auto& reason : pending) {
    TORCH_WARN(
        "a program could not be compiled and runs op by op on the CPU (slow, but right): ", reason);
  }
}

} // namespace ftm
