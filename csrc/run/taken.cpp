#include "run/taken.h"

#include "graph/pieces.h"
#include "process/counters.h"
#include "run/launcher.h"
#include "run/unrolled.h"
#include "tensor/variable.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace ftm {
namespace {

// The variables whose value is pending, and the values, each once.
struct PendingValues {
  std::vector<VariableData*> variables;
  std::vector<Value> results;
  std::vector<size_t> result_of; // for each variable
};

PendingValues pending_values(const PendingTrace& pending) {
  PendingValues found;
  std::unordered_map<const torch::lazy::Node*, c10::SmallVector<size_t, 1>> seen;
  for (auto* variable = pending.first; variable != nullptr; variable = variable->next) {
    const Value& value = variable->ir_value;
    auto& candidates = seen[value.node.get()];
    const auto same = std::find_if(
        candidates.begin(), candidates.end(), [&](size_t i) { return found.results[i].index == value.index; });
    if (same == candidates.end()) {
      candidates.push_back(found.results.size());
      found.result_of.push_back(found.results.size());
      found.results.push_back(value);
    } else {
      found.result_of.push_back(*same);
    }
    found.variables.push_back(variable);
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
  job->before.resize(piece.outputs.size());
  job->scalars = std::move(piece.graph.scalars);
  for (size_t i = 0; i < piece.graph.calls.size(); ++i) {
    if (const auto& line = piece.graph.calls[i]->line) {
      job->origin.recorded_at.emplace_back(i, line);
    }
  }
  return job;
}

// For each job what its results' variables held.
void note_before(const PendingValues& values, const PiecedGraph& made, std::vector<Cut>& cuts) {
  std::vector<std::unordered_map<const Buffer*, int32_t>> inputs(cuts.size());
  for (size_t k = 0; k < cuts.size(); ++k) {
    const auto& job = *cuts[k].job;
    for (size_t i = 0; i < job.inputs.size(); ++i) {
      inputs[k].emplace(job.inputs[i].buffer.get(), static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < values.variables.size(); ++i) {
    const auto [piece, result] = made.results[values.result_of[i]];
    auto& before = cuts[piece].job->before[result];
    const auto& held = values.variables[i]->before;
    const auto input = inputs[piece].find(held.get());
    if (input != inputs[piece].end()) {
      before.input = input->second;
    } else {
      before.other = held;
    }
  }
}

// What is to be computed program by program: all at once if `program` is found, or if it is a piece of a long loop already, else in
// pieces where its loops say so.
PiecedGraph pieces_of(Graph graph, bool is_piece, ProgramPtr& program) {
  static auto& unrolled = counter("unrolled");
  program = find_program(graph.hash, graph);
  auto iterations = program || is_piece ? std::nullopt : iterations_of(graph);
  if (!iterations) {
    return one_piece(std::move(graph));
  }
  unrolled.fetch_add(1);
  return std::move(*iterations);
}

} // namespace

Taken take_pending(PendingTrace& pending) {
  auto values = pending_values(pending);
  Taken taken;
  if (values.variables.empty()) {
    return taken;
  }
  auto graph = collect_graph(values.results);
  taken.hash = graph.hash;
  ProgramPtr program;
  auto made = pieces_of(std::move(graph), pending.log.is_loop_piece(), program);
  for (auto& piece : made.pieces) {
    Cut cut;
    cut.hash = piece.graph.hash;
    cut.program = program ? program : find_program(cut.hash, piece.graph);
    if (!cut.program) {
      cut.trace = make_trace(piece.graph);
      cut.is_step = piece.is_step;
      cut.trains = pending.trains.load(std::memory_order_relaxed);
    }
    cut.job = job_of(piece);
    taken.cuts.push_back(std::move(cut));
  }
  note_before(values, made, taken.cuts);
  for (const auto& cut : taken.cuts) {
    enqueue(cut.job); // may throw, at the first one: nothing is changed yet
  }
  for (size_t i = 0; i < values.variables.size(); ++i) {
    taken.settled.push_back(settle(*values.variables[i], made.values[values.result_of[i]]));
  }
  taken.settled.insert(
      taken.settled.end(), std::make_move_iterator(values.results.begin()),
      std::make_move_iterator(values.results.end()));
  return taken;
}

} // namespace ftm
