#include "compile/compilation.h"

#include "partition/choose_symbols.h"
#include "partition/varying_dims.h"
#include "graph/source_location.h"

#include <algorithm>
#include <utility>

namespace ftm {
namespace {

constexpr double kSimilar = 0.5; // share of common kinds of operations

} // namespace

Compilation::Compilation(CompileRequest requested, JobPtr for_job)
    : request(std::move(requested)), job(std::move(for_job)) {
  for (const auto& call : request.trace.calls) {
    operations_.insert(call.spec->name);
  }
}

bool Compilation::is_similar(const Compilation& other) const {
  const auto common = std::count_if(operations_.begin(), operations_.end(), [&](const auto& name) {
    return other.operations_.count(name) != 0;
  });
  const auto all = static_cast<double>(operations_.size() + other.operations_.size()) -
                   static_cast<double>(common);
  return static_cast<double>(common) >= kSimilar * all;
}

bool complete_request(Compilation& compilation) {
  auto& request = compilation.request;
  const JobPtr job = std::exchange(compilation.job, nullptr);
  if (notes_all_locations()) {
    request.locations = job->origin.lines(request.trace.calls.size());
  }
  if (request.any_size) {
    // A fill has no parameters; its result has any size.
    request.trains = !request.trace.parameters.empty();
  }
  request.symbols = choose_symbols(request.trace, job->inputs, {request.trains, request.any_size});
  return is_fill(request, *job) ||
         (!request.any_size && request.trains && request.symbols.symbols.empty());
}

void set_varying_results(const Job& job, const Program& program) {
  const auto& varying = program.varying_dims();
  for (size_t i = 0; i < std::min(varying.size(), job.outputs.size()); ++i) {
    job.outputs[i]->set_varying_dims(
        varying_outside(varying[i], program.trace().result_types[i], *job.outputs[i]));
  }
}

bool is_fill(const CompileRequest& request, const Job& job) {
  return request.any_size && job.inputs.empty();
}

} // namespace ftm
