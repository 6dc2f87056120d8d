#include "partition/plan_launch.h"

#include "graph/loop_detector.h"
#include "partition/split_constant_fills.h"
#include "partition/subgraphs.h"
#include "support/counters.h"
#include "support/device_index.h"
#include "partition/choose_symbols.h"
#include "partition/whole_programs.h"
#include "execute/integers_on_cpu.h"
#include "execute/launcher.h"
#include "partition/unrolled_loops.h"
#include "tensor/storage_variable.h"
#include "tensor/view_access.h"

#include <c10/util/flat_hash_map.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace ftm {
namespace {

// The variables with pending values, and the distinct values in the order of their calls. That
// order does not depend on when a variable was created: an optimizer's first step, which creates
// its state, makes the same program as later steps.
struct PendingValues {
  std::vector<VariableData*> variables;
  std::vector<Value> results;
  std::vector<size_t> result_of; // by variable
};

std::pair<uint64_t, size_t> order_of(const Value& value) {
  return {static_cast<const CallNode&>(trace_node(value)).sequence, value.index};
}

// Returns the distinct values of these variables, in the order of their calls.
std::vector<Value> distinct_values(c10::ArrayRef<VariableData*> variables) {
  std::vector<Value> values;
  values.reserve(variables.size());
  for (const auto* variable : variables) {
    values.push_back(variable->ir_value);
  }
  std::sort(values.begin(), values.end(), [](const Value& a, const Value& b) {
    return order_of(a) < order_of(b);
  });
  const auto is_same = [](const Value& a, const Value& b) { return order_of(a) == order_of(b); };
  values.erase(std::unique(values.begin(), values.end(), is_same), values.end());
  return values;
}

// If the program fails, a result gets the value that its variable had before. So variables that had
// different values before, or none, must not share a result: replaces the value of all but the
// first by a view of it. Example: `v` and `a` after `a.copy_(v)`.
void separate_old_values(c10::ArrayRef<VariableData*> variables) {
  using OldAndNew = std::pair<const Buffer*, Value>;
  std::map<std::pair<uint64_t, size_t>, std::vector<OldAndNew>> by_value;
  for (auto* variable : variables) {
    auto& value = variable->ir_value;
    auto& separated = by_value[order_of(value)];
    const auto* old = variable->old_buffer.get();
    auto found = std::find_if(separated.begin(), separated.end(), [&](const OldAndNew& each) {
      return each.first == old;
    });
    if (found == separated.end()) {
      const auto& sizes = type_of(value).sizes;
      separated.emplace_back(
          old, separated.empty() ? value
                                 : strided_view(value, sizes, c10::contiguous_strides(sizes), 0));
      found = std::prev(separated.end());
    }
    value = found->second;
  }
}

PendingValues pending_values(const PendingTrace& pending) {
  PendingValues found;
  for (auto* variable = pending.first; variable != nullptr; variable = variable->next) {
    found.variables.push_back(variable);
  }
  auto& results = found.results;
  results = distinct_values(found.variables);
  if (results.size() < found.variables.size()) {
    separate_old_values(found.variables);
    results = distinct_values(found.variables);
  }
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

// Adds the collectives that a program carries out.
void add_collectives(const JobPtr& job, const Graph& graph) {
  if (!has_collectives()) {
    return;
  }
  for (const auto* call : graph.calls) {
    if (communicates(call->spec()) && call->scalars.front() != 0) {
      const auto& collective = job->collectives.emplace_back(
          find_collective(static_cast<int64_t>(call->scalars.front())));
      collective->set_job(job);
    }
  }
}

JobPtr make_job(Subgraph& subgraph) {
  auto job = std::make_shared<Job>();
  add_collectives(job, subgraph.graph);
  job->inputs = inputs_of(subgraph.graph);
  job->outputs.reserve(subgraph.outputs.size());
  for (const auto& output : subgraph.outputs) {
    job->outputs.push_back(buffer_of(output));
  }
  job->old_values.resize(subgraph.outputs.size());
  job->scalars = std::move(subgraph.graph.scalars);
  for (size_t i = 0; i < subgraph.graph.calls.size(); ++i) {
    if (const auto& origin = subgraph.graph.calls[i]->origin) {
      job->origin.recorded_at.emplace_back(i, origin);
    }
  }
  return job;
}

// Takes the memory of each result from the device of a tensor that has it. A copy on another device
// shares that memory until one of the two is overwritten.
void place_results(const PendingValues& values, const PartitionedGraph& partitioned) {
  for (size_t i = 0; i < values.variables.size(); ++i) {
    const auto& buffer = buffer_of(partitioned.values[values.result_of[i]]);
    buffer->set_device_index(values.variables[i]->device);
  }
}

// Records for each job the values that its results' variables had before.
void note_old_values(
    const PendingValues& values, const PartitionedGraph& partitioned,
    std::vector<LaunchUnit>& units) {
  const auto overwrites = [](const VariableData* variable) {
    return variable->old_buffer != nullptr;
  };
  if (std::none_of(values.variables.begin(), values.variables.end(), overwrites)) {
    return; // as in inference
  }
  std::vector<ska::flat_hash_map<const Buffer*, int32_t>> inputs(units.size());
  for (size_t k = 0; k < units.size(); ++k) {
    const auto& job = *units[k].job;
    inputs[k].reserve(job.inputs.size());
    for (size_t i = 0; i < job.inputs.size(); ++i) {
      inputs[k].emplace(job.inputs[i].buffer.get(), static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < values.variables.size(); ++i) {
    const auto [subgraph, result] = partitioned.results[values.result_of[i]];
    auto& old = units[subgraph].job->old_values[result];
    const auto& buffer = values.variables[i]->old_buffer;
    const auto input = inputs[subgraph].find(buffer.get());
    if (input != inputs[subgraph].end()) {
      old.input = input->second;
    } else {
      old.other = buffer;
    }
  }
}

// A graph partitioned into programs.
struct Programs {
  PartitionedGraph partitioned;
  ProgramPtr last; // the last subgraph's program, if it was already looked up
};

// Concatenates the fills and the partition of the remaining graph.
PartitionedGraph with_fills(SplitFills filled, PartitionedGraph remaining) {
  PartitionedGraph partitioned;
  size_t next = 0;
  for (const int64_t fill : filled.fill_of_result) {
    if (fill >= 0) {
      partitioned.results.push_back({static_cast<size_t>(fill), 0});
      partitioned.values.push_back(filled.fills[fill].outputs[0]);
      continue;
    }
    const auto [subgraph, result] = remaining.results[next];
    partitioned.results.push_back({filled.fills.size() + subgraph, result});
    partitioned.values.push_back(remaining.values[next++]);
  }
  partitioned.subgraphs = std::move(filled.fills);
  std::move(
      remaining.subgraphs.begin(), remaining.subgraphs.end(),
      std::back_inserter(partitioned.subgraphs));
  partitioned.calls = std::move(filled.calls);
  std::move(remaining.calls.begin(), remaining.calls.end(), std::back_inserter(partitioned.calls));
  return partitioned;
}

// Returns the calls whose tensors a later step finds in memory. A training step that uses memory
// before it is initialized, and keeps it, uses the same memory in the next step. Example: the
// buckets into which DistributedDataParallel gathers gradients.
FillCalls first_step_fills(const PendingTrace& pending, const PendingValues& values) {
  FillCalls found{pending.step.recorded, {}};
  if (!pending.trains.load(std::memory_order_relaxed)) {
    return found;
  }
  for (const auto* variable : values.variables) {
    if (variable->initial_fill) {
      found.initial.push_back(*variable->initial_fill);
    }
  }
  std::sort(found.initial.begin(), found.initial.end());
  return found;
}

// Partitions a graph. It remains one program, to which the graph is moved, if that program exists,
// or if it is a segment of a loop (`is_segment`); otherwise its constant fills and loops are split
// off.
Programs partition(Graph& graph, bool is_segment, const FillCalls& fill_calls) {
  static auto& unrolled = counter("unrolled");
  if (auto program = find_program(graph.hash, graph)) {
    return {single_subgraph(std::move(graph)), std::move(program)};
  }
  if (is_whole_compiled(graph.hash)) {
    return {single_subgraph(std::move(graph)), nullptr};
  }
  const auto fills = cuts_loops() ? find_constant_fills(graph, fill_calls) : std::vector<size_t>();
  if (!fills.empty()) {
    auto filled = split_constant_fills(graph, fills);
    auto remaining = partition(filled.remaining, is_segment, {});
    return {
        with_fills(std::move(filled), std::move(remaining.partitioned)), std::move(remaining.last)};
  }
  auto iterations = is_segment ? std::nullopt : split_loops(graph);
  if (!iterations) {
    return {single_subgraph(std::move(graph)), nullptr};
  }
  unrolled.fetch_add(1);
  return {std::move(*iterations), nullptr};
}

CompileRequest request_for(const Graph& graph, const PendingTrace& pending) {
  CompileRequest request;
  request.hash = graph.hash;
  request.trace = make_trace(graph);
  request.trains = pending.trains.load(std::memory_order_relaxed);
  return request;
}

} // namespace

ProgramPtr find_pending_program(const PendingTrace& pending) {
  const auto values = pending_values(pending);
  const auto graph = collect_graph(values.results);
  return find_program(graph.hash, graph);
}

LaunchPlan plan_launch(PendingTrace& pending) {
  auto values = pending_values(pending);
  LaunchPlan plan;
  if (values.variables.empty()) {
    return plan;
  }
  static uint64_t last_trace_id = 0;
  if (pending.trace_id == 0) {
    pending.trace_id = ++last_trace_id;
  }
  auto graph = collect_graph(values.results);
  plan.hash = graph.hash;
  const size_t calls = graph.calls.size();
  auto [partitioned, last] =
      partition(graph, pending.log.is_loop_segment(), first_step_fills(pending, values));
  const size_t pieces = partitioned.subgraphs.size();
  if (pieces > 1 && is_whole_wanted(plan.hash, pieces, calls)) {
    plan.whole = request_for(graph, pending);
    plan.whole->symbols = choose_symbols(plan.whole->trace, inputs_of(graph), {plan.whole->trains});
  }
  for (auto& subgraph : partitioned.subgraphs) {
    const bool is_found = last && &subgraph == &partitioned.subgraphs.back();
    LaunchUnit unit;
    unit.program = is_found ? last : find_program(subgraph.graph.hash, subgraph.graph);
    if (!unit.program) {
      unit.request = request_for(subgraph.graph, pending);
      unit.request.any_size = subgraph.any_size;
      unit.request.trace_id = pending.trace_id;
    }
    unit.job = make_job(subgraph);
    plan.units.push_back(std::move(unit));
  }
  note_old_values(values, partitioned, plan.units);
  if (device_count() > 1) {
    place_results(values, partitioned);
  }
  for (const auto& unit : plan.units) {
    enqueue(unit.job); // may throw for the first job, when nothing has changed yet
  }
  for (size_t i = 0; i < values.results.size(); ++i) {
    keep_host_expression(values.results[i], partitioned.values[i]);
  }
  for (size_t i = 0; i < values.variables.size(); ++i) {
    plan.old_graph.push_back(
        set_computed(*values.variables[i], partitioned.values[values.result_of[i]]));
  }
  plan.old_graph.insert(
      plan.old_graph.end(), std::make_move_iterator(values.results.begin()),
      std::make_move_iterator(values.results.end()));
  return plan;
}

} // namespace ftm
