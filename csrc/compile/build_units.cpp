#include "compile/build_units.h"

#include "graph/source_location.h"
#include "support/counters.h"
#include "support/strict_mode.h"
#include "execute/run_observer.h"
#include "execute/launcher.h"
#include "program/program_table.h"
#include "partition/varying_sizes.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_set>

namespace ftm {
namespace {

using Cuts = c10::ArrayRef<LaunchUnit>;

// Why programs were not compiled; the thread that waits for a result is warned, and not the one
// that built.
struct OpByOp {
  std::mutex mutex; // taken alone
  std::vector<std::string> due;
};

OpByOp& op_by_op() {
  static auto* instance = new OpByOp;
  return *instance;
}

// Of each call, where all are noted: what the compiler's explanations name.
std::vector<std::string> noted_lines(const LaunchUnit& cut) {
  return notes_all_locations() ? cut.job->origin.lines(cut.trace.calls.size())
                               : std::vector<std::string>();
}

CompileRequest request_for(const LaunchUnit& cut) {
  auto size_guess =
      cut.any_size
          ? any_sizes(cut.trace.parameters)
          : SizeGuess{
                varying_dimensions(cut.trace.parameters, cut.job->inputs, cut.trains), cut.trains};
  return {{}, noted_lines(cut), std::move(size_guess), cut.trace_id};
}

// A tensor that an optimizer's first step fills, which one program does for all.
bool is_fill(const LaunchUnit& cut) {
  return cut.any_size && cut.job->inputs.empty();
}

// The results of a program for many sizes are of other sizes when it runs again, but an optimizer's
// state.
void note_varying(const LaunchUnit& cut, const Program& program) {
  if (is_fill(cut)) {
    return;
  }
  const auto& job = *cut.job;
  const auto& varies = program.varying_dims();
  for (size_t i = 0; i < std::min(varies.size(), job.outputs.size()); ++i) {
    job.outputs[i]->set_varying_dims(
        varying_outside(varies[i], program.trace().result_types[i], *job.outputs[i]));
  }
}

// Whether the results of a program that is to be built have fixed sizes, whatever it becomes.
bool is_of_fixed_sizes(const LaunchUnit& cut, const CompileRequest& request) {
  return is_fill(cut) || (!cut.any_size && cut.trains && request.size_guess.varying_dims.empty());
}

// Tells the compiler of those that are to be built, if there are several, as far as what it is told
// of one does not hang on how another one is built; for each what it was told, or nothing.
std::vector<CompileRequest> announced(Cuts cuts) {
  std::vector<CompileRequest> requests(cuts.size());
  std::unordered_set<Hash128, Hash128Hasher> wanted;
  for (const auto& cut : cuts) {
    if (!cut.program) {
      wanted.insert(cut.hash);
    }
  }
  if (wanted.size() < 2 || !uses_machine()) {
    return requests;
  }
  std::vector<CompileRequest> told;
  std::unordered_set<const Buffer*>
      open; // results of which it is not known yet whether their sizes vary
  for (size_t i = 0; i < cuts.size(); ++i) {
    const auto& cut = cuts[i];
    const auto is_open = [&](const Input& input) { return open.count(input.buffer.get()) != 0; };
    if (cut.program) {
      note_varying(cut, *cut.program);
      continue;
    }
    const bool hangs =
        !cut.any_size && std::any_of(cut.job->inputs.begin(), cut.job->inputs.end(), is_open);
    auto request = hangs ? CompileRequest() : request_for(cut);
    if (hangs || !is_of_fixed_sizes(cut, request)) {
      for (const auto& output : cut.job->outputs) {
        open.insert(output.get());
      }
    }
    if (!hangs && wanted.erase(cut.hash) != 0) {
      request.trace_text = trace_text(cut.trace);
      told.push_back(request);
      requests[i] = std::move(request);
    }
  }
  announce_to_python(told);
  return requests;
}

BuildResult build(const LaunchUnit& cut, CompileRequest announced) {
  return build_program(
      cut.hash, cut.trace, announced.trace_text.empty() ? request_for(cut) : std::move(announced));
}

// These jobs are not run: each is completed with that error, so that nobody waits for it in vain.
FailurePtr abandon_all(Cuts cuts, const std::exception& error) {
  auto failure = failure_from(error, "(while a program was launched on device ftm)");
  for (const auto& cut : cuts) {
    abandon(cut.job, failure);
  }
  return failure;
}

FailurePtr abandon_all(Cuts cuts, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return abandon_all(cuts, known);
  } catch (...) {
    return abandon_all(
        cuts, std::runtime_error("the launch was ended by an exception of an unknown type"));
  }
}

std::vector<LaunchUnit> from(std::vector<LaunchUnit>& cuts, size_t first) {
  return {
      std::make_move_iterator(cuts.begin() + static_cast<std::ptrdiff_t>(first)),
      std::make_move_iterator(cuts.end())};
}

} // namespace

bool are_built(const std::vector<LaunchUnit>& cuts) {
  return std::all_of(
      cuts.begin(), cuts.end(), [](const LaunchUnit& cut) { return cut.program != nullptr; });
}

BuildOutcome build_and_start(std::vector<LaunchUnit> cuts) {
  static auto& hits = counter("cache_hits_memory");
  BuildOutcome building;
  size_t i = 0;
  try {
    auto requests = announced(cuts);
    for (; i < cuts.size(); ++i) {
      BuildResult built{cuts[i].program, {}, {}};
      if (built.program) {
        hits.fetch_add(1);
      } else {
        built = build(cuts[i], std::move(requests[i]));
      }
      if (built.interrupt) {
        building.left = from(cuts, i);
        building.error = built.interrupt;
        return building;
      }
      if (!built.failure.empty() && !is_strict()) {
        const std::lock_guard<std::mutex> guard(op_by_op().mutex);
        op_by_op().due.push_back(std::move(built.failure));
      }
      note_varying(cuts[i], *built.program);
      try {
        start_observed(cuts[i].job, built.program);
      } catch (...) { // its own job runs, or can't
        building.error = std::current_exception();
        building.failure = abandon_all(Cuts(cuts).slice(i, 1), building.error);
        building.left = from(cuts, i + 1);
        return building;
      }
      cuts[i] = LaunchUnit(); // the job's buffers are freed when it ends, and not when the last one
                              // is built
    }
  } catch (...) {
    building.error = std::current_exception();
    building.failure = abandon_all(Cuts(cuts).slice(i), building.error);
  }
  return building;
}

void warn_of_op_by_op() {
  std::vector<std::string> due;
  {
    const std::lock_guard<std::mutex> guard(op_by_op().mutex);
    due.swap(op_by_op().due);
  }
  for (const auto& reason : due) {
    TORCH_WARN(
        "a program could not be compiled and runs op by op on the CPU (slow, but right): ", reason);
  }
}

} // namespace ftm
