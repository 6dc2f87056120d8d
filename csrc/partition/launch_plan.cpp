#include "partition/launch_plan.h"

#include "graph/loop_detector.h"
#include "partition/constant_fills.h"
#include "partition/subgraphs.h"
#include "support/counters.h"
#include "partition/trace_frequency.h"
#include "execute/host_conditions.h"
#include "execute/launcher.h"
#include "partition/unrolled_loops.h"
#include "tensor/storage_variable.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace ftm {
namespace {

// The variables whose value is pending, and the values, each once, in the order in which they are
// computed: when a variable got its first value, an optimizer's state in its first step for one,
// makes no other program.
struct PendingValues {
  std::vector<VariableData*> variables;
  std::vector<Value> results;
  std::vector<size_t> result_of; // for each variable
};

std::pair<uint64_t, size_t> order_of(const Value& value) {
  return {static_cast<const CallNode&>(trace_node(value)).sequence, value.index};
}

PendingValues pending_values(const PendingTrace& pending) {
  PendingValues found;
  for (auto* variable = pending.first; variable != nullptr; variable = variable->next) {
    found.variables.push_back(variable);
    found.results.push_back(variable->ir_value);
  }
  auto& results = found.results;
  std::sort(results.begin(), results.end(), [](const Value& a, const Value& b) {
    return order_of(a) < order_of(b);
  });
  const auto is_same = [](const Value& a, const Value& b) { return order_of(a) == order_of(b); };
  results.erase(std::unique(results.begin(), results.end(), is_same), results.end());
  for (const auto* variable : found.variables) {
    const auto order = order_of(variable->ir_value);
    const auto result = std::lower_bound(
        results.begin(), results.end(), order,
        [](const Value& value, const auto& at) { return order_of(value) < at; });
    found.result_of.push_back(result - results.begin());
  }
  return found;
}

const BufferPtr& buffer_of(const Value& data) {
  return static_cast<const DataNode&>(trace_node(data)).buffer();
}

JobPtr job_of(Piece& piece) {
  auto job = std::make_shared<Job>();
  for (const auto* parameter : piece.graph.parameters) {
    const auto itemsize = static_cast<int64_t>(c10::elementSize(parameter->type(0).dtype));
    job->inputs.emplace_back(parameter->buffer(), parameter->offset() * itemsize);
  }
  for (const auto& output : piece.outputs) {
    job->outputs.push_back(buffer_of(output));
  }
  job->old_values.resize(piece.outputs.size());
  job->scalars = std::move(piece.graph.scalars);
  for (size_t i = 0; i < piece.graph.calls.size(); ++i) {
    if (const auto& line = piece.graph.calls[i]->line) {
      job->origin.recorded_at.emplace_back(i, line);
    }
  }
  return job;
}

// For each job what its results' variables held.
void note_before(
    const PendingValues& values, const PiecedGraph& made, std::vector<LaunchUnit>& cuts) {
  std::vector<std::unordered_map<const Buffer*, int32_t>> inputs(cuts.size());
  for (size_t k = 0; k < cuts.size(); ++k) {
    const auto& job = *cuts[k].job;
    for (size_t i = 0; i < job.inputs.size(); ++i) {
      inputs[k].emplace(job.inputs[i].buffer.get(), static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < values.variables.size(); ++i) {
    const auto [piece, result] = made.results[values.result_of[i]];
    auto& before = cuts[piece].job->old_values[result];
    const auto& held = values.variables[i]->old_buffer;
    const auto input = inputs[piece].find(held.get());
    if (input != inputs[piece].end()) {
      before.input = input->second;
    } else {
      before.other = held;
    }
  }
}

// What is to be computed program by program.
struct Programs {
  PiecedGraph made;
  ProgramPtr last; // that of the last piece, if it was found
};

// The fills, and then the rest.
PiecedGraph with_fills(FilledGraph filled, PiecedGraph rest) {
  PiecedGraph made;
  size_t next = 0;
  for (const int64_t fill : filled.fill_of_result) {
    if (fill >= 0) {
      made.results.push_back({static_cast<size_t>(fill), 0});
      made.values.push_back(filled.fills[fill].outputs[0]);
      continue;
    }
    const auto [piece, result] = rest.results[next];
    made.results.push_back({filled.fills.size() + piece, result});
    made.values.push_back(rest.values[next++]);
  }
  made.pieces = std::move(filled.fills);
  std::move(rest.pieces.begin(), rest.pieces.end(), std::back_inserter(made.pieces));
  made.calls = std::move(filled.calls);
  std::move(rest.calls.begin(), rest.calls.end(), std::back_inserter(made.calls));
  return made;
}

// All at once if there is a program for it, or if it is a piece of a long loop already, else in
// pieces where its loops say so.
Programs programs_of(Graph graph, bool is_piece, CallRange last_step) {
  static auto& unrolled = counter("unrolled");
  if (auto program = find_program(graph.hash, graph)) {
    return {one_piece(std::move(graph)), std::move(program)};
  }
  const auto fills = cuts_loops() ? fills_among(graph, last_step) : std::vector<size_t>();
  if (!fills.empty() && !is_frequent(graph.hash)) {
    auto filled = fill_first(graph, fills);
    auto rest = programs_of(std::move(filled.rest), is_piece, {});
    return {with_fills(std::move(filled), std::move(rest.made)), std::move(rest.last)};
  }
  auto iterations = is_piece ? std::nullopt : iterations_of(graph);
  if (!iterations) {
    return {one_piece(std::move(graph)), nullptr};
  }
  unrolled.fetch_add(1);
  return {std::move(*iterations), nullptr};
}

} // namespace

LaunchPlan take_pending(PendingTrace& pending) {
  auto values = pending_values(pending);
  LaunchPlan taken;
  if (values.variables.empty()) {
    return taken;
  }
  static uint64_t wholes = 0;
  if (pending.trace_id == 0) {
    pending.trace_id = ++wholes;
  }
  auto graph = collect_graph(values.results);
  taken.hash = graph.hash;
  auto [made, last] =
      programs_of(std::move(graph), pending.log.is_loop_segment(), pending.step.recorded);
  for (auto& piece : made.pieces) {
    const bool is_found = last && &piece == &made.pieces.back();
    LaunchUnit cut;
    cut.hash = piece.graph.hash;
    cut.program = is_found ? last : find_program(cut.hash, piece.graph);
    if (!cut.program) {
      cut.trace = make_trace(piece.graph);
      cut.any_size = piece.any_size;
      cut.trains = pending.trains.load(std::memory_order_relaxed);
      cut.trace_id = pending.trace_id;
    }
    cut.job = job_of(piece);
    taken.cuts.push_back(std::move(cut));
  }
  note_before(values, made, taken.cuts);
  for (const auto& cut : taken.cuts) {
    enqueue(cut.job); // may throw, at the first one: nothing is changed yet
  }
  for (size_t i = 0; i < values.results.size(); ++i) {
    keep_host_expression(values.results[i], made.values[i]);
  }
  for (size_t i = 0; i < values.variables.size(); ++i) {
    taken.settled.push_back(set_computed(*values.variables[i], made.values[values.result_of[i]]));
  }
  taken.settled.insert(
      taken.settled.end(), std::make_move_iterator(values.results.begin()),
      std::make_move_iterator(values.results.end()));
  return taken;
}

} // namespace ftm
