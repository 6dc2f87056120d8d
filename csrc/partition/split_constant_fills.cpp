#include "partition/split_constant_fills.h"

#include "graph/operand_slots.h"

#include <algorithm>

namespace ftm {
namespace {

// Whether a call makes a tensor only from its size, which is the first argument, and numbers that
// are not random.
bool is_constant_fill(const CallNode& call) {
  const auto& spec = call.spec();
  if (spec.kind != CallSpec::Kind::aten || spec.results.size() != 1 || spec.values != 0 ||
      spec.arguments.empty()) {
    return false;
  }
  const auto& size = spec.arguments[0];
  const auto is_random = [](const OperandSlot& slot) { return slot.argument < 0; };
  return size.isIntList() &&
         c10::IntArrayRef(size.toIntVector()).equals(spec.results[0].type.sizes) &&
         std::none_of(spec.slots.begin(), spec.slots.end(), is_random);
}

// Makes the spec of a call that fills as many elements as a one-dimensional tensor.
CallSpecPtr flat_fill_spec(const CallSpec& fill) {
  auto spec = c10::make_intrusive<CallSpec>();
  const int64_t elements = fill.results[0].type.numel();
  spec->name = fill.name;
  spec->op = fill.op;
  spec->arguments = fill.arguments;
  spec->arguments[0] = c10::List<int64_t>({elements});
  spec->tensor_lists = fill.tensor_lists;
  spec->list_lengths = fill.list_lengths;
  spec->fitted = fill.fitted;
  ResultType result;
  result.type = {fill.results[0].type.dtype, {elements}};
  result.strides = {1};
  spec->results.push_back(std::move(result));
  std::vector<std::vector<OperandMark>> operands(spec->arguments.size());
  for (const auto& slot : fill.slots) {
    operands[slot.argument].push_back({true, slot.kind});
  }
  set_operands(*spec, operands, /*random=*/false);
  spec->finish();
  return spec;
}

class FillSplitter {
 public:
  FillSplitter(const Graph& old, c10::ArrayRef<size_t> fills) : old_(old), fills_(fills) {}

  SplitFills split() {
    for (const auto* call : old_.calls) {
      const auto values =
          c10::ArrayRef<ValueNumber>(old_.operands).slice(next_operand_, call->values.size());
      next_operand_ += call->values.size();
      if (!fills_.empty() && old_.calls[fills_.front()] == call) {
        fills_ = fills_.slice(1);
        add_fill(*call);
      } else {
        add_remaining_call(*call, values);
      }
    }
    auto& remaining = split_.remaining;
    for (size_t i = 0; i < old_.results.size(); ++i) {
      const auto& result = results_[old_.result_numbers[i].index()];
      split_.fill_of_result.push_back(result.fill);
      if (result.fill < 0) {
        remaining.results.push_back(old_.results[i]);
        remaining.result_numbers.push_back(result.number);
      }
    }
    remaining.hash = hash_of(remaining);
    return std::move(split_);
  }

 private:
  void add_fill(const CallNode& old) {
    auto call = std::make_shared<CallNode>(old.op(), flat_fill_spec(old.spec()), old.sequence);
    call->origin = old.origin;
    call->scalars = old.scalars;
    Subgraph subgraph;
    subgraph.any_size = true;
    subgraph.graph.calls = {call.get()};
    subgraph.graph.scalars.assign(call->scalars.begin(), call->scalars.end());
    subgraph.graph.results = {Value(call, 0)};
    subgraph.graph.result_numbers = {ValueNumber::result(0)};
    subgraph.graph.hash = hash_of(subgraph.graph);
    const auto& type = old.type(0);
    subgraph.outputs = {data_value(std::make_shared<Buffer>(type.dtype, type.sizes), type)};
    results_.push_back({static_cast<int64_t>(split_.fills.size()), ValueNumber::result(0)});
    fills_read_.push_back(-1);
    split_.calls.emplace_back(std::move(call), 0);
    split_.fills.push_back(std::move(subgraph));
  }

  void add_remaining_call(const CallNode& call, c10::ArrayRef<ValueNumber> values) {
    auto& remaining = split_.remaining;
    for (const auto value : values) {
      remaining.operands.push_back(number_of(value));
    }
    remaining.calls.push_back(&call);
    remaining.scalars.insert(remaining.scalars.end(), call.scalars.begin(), call.scalars.end());
    for (size_t k = 0; k < call.spec().results.size(); ++k) {
      results_.push_back({-1, ValueNumber::result(next_result_++)});
    }
  }

  // Returns a value's number in the remaining graph, whose parameters are numbered by first use.
  ValueNumber number_of(ValueNumber old) {
    if (old.is_parameter()) {
      return parameter(parameters_read_[old.index()], old_.parameters[old.index()]);
    }
    const auto& result = results_[old.index()];
    if (result.fill < 0) {
      return result.number;
    }
    const auto& filled = split_.fills[result.fill].outputs[0];
    return parameter(fills_read_[result.fill], static_cast<const DataNode*>(filled.node.get()));
  }

  ValueNumber parameter(int64_t& number, const DataNode* node) {
    if (number < 0) {
      number = static_cast<int64_t>(split_.remaining.parameters.size());
      split_.remaining.parameters.push_back(node);
    }
    return ValueNumber::parameter(number);
  }

  // A result of the old graph: produced by a fill, or numbered in the remaining graph.
  struct Result {
    int64_t fill; // index of the fill; -1 if another call produces it
    ValueNumber number;
  };

  const Graph& old_;
  c10::ArrayRef<size_t> fills_; // not processed yet
  size_t next_operand_ = 0;
  int64_t next_result_ = 0;
  std::vector<Result> results_;
  // Parameter numbers in the remaining graph, of the old graph's parameters and of fills; -1 if not
  // used yet.
  std::vector<int64_t> parameters_read_ = std::vector<int64_t>(old_.parameters.size(), -1);
  std::vector<int64_t> fills_read_;
  SplitFills split_;
};

} // namespace

bool FillCalls::contains(uint64_t sequence) const {
  return step.contains(sequence) || std::binary_search(initial.begin(), initial.end(), sequence);
}

std::vector<size_t> find_constant_fills(const Graph& graph, const FillCalls& among) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    const auto& call = *graph.calls[i];
    if (among.contains(call.sequence) && is_constant_fill(call)) {
      found.push_back(i);
    }
  }
  return found.size() == graph.calls.size() ? std::vector<size_t>() : found;
}

SplitFills split_constant_fills(const Graph& graph, c10::ArrayRef<size_t> fills) {
  return FillSplitter(graph, fills).split();
}

} // namespace ftm
