#include "partition/split_concat.h"

#include "graph/operand_slots.h"
#include "graph/view_spec.h"

#include <algorithm>
#include <array>

namespace ftm {
namespace {

// Numbers of values of one type that one program concatenates. Each is a program to compile; with
// fewer of them, more launches would be needed: at most 7 for less than 256 values.
constexpr std::array<size_t, 4> kGroups = {64, 16, 4, 2};

const c10::OperatorHandle& cat() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::cat", "");
  return op;
}

// Returns the dimension of a concatenation in its result, counted from the front.
int64_t dim_of(const CallSpec& spec) {
  const int64_t dim = spec.arguments[1].toInt();
  return dim < 0 ? dim + static_cast<int64_t>(spec.results[0].type.sizes.size()) : dim;
}

bool concatenates_one_type(const CallNode& call) {
  const auto& spec = call.spec();
  if (spec.concatenates == Concatenation::none || call.values.empty()) {
    return false;
  }
  const auto& first = type_of(call.values[0]);
  return first.dtype == spec.results[0].type.dtype && first.numel() != 0 &&
         std::all_of(call.values.begin(), call.values.end(), [&](const Value& v) {
           return type_of(v) == first;
         });
}

c10::DimVector row_major_strides(c10::IntArrayRef sizes) {
  c10::DimVector strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return strides;
}

CallSpecPtr cat_spec(c10::ArrayRef<ValueType> parts, int64_t dim) {
  auto spec = c10::make_intrusive<CallSpec>();
  spec->name = cat().operator_name().name;
  spec->op = cat();
  spec->concatenates = Concatenation::dim;
  spec->arguments = {c10::IValue(), dim};
  spec->tensor_lists = {static_cast<int32_t>(parts.size()), -1};
  spec->list_lengths = {-1};
  ResultType result;
  result.type = parts[0];
  for (const auto& part : parts.slice(1)) {
    result.type.sizes[dim] += part.sizes[dim];
  }
  result.strides = row_major_strides(result.type.sizes);
  spec->results.push_back(std::move(result));
  std::vector<std::vector<OperandMark>> operands(2);
  operands[0].assign(parts.size(), {true, OperandSlot::Kind::value});
  set_operands(*spec, operands, /*random=*/false);
  spec->finish();
  return spec;
}

// A value, and its number in the new graph.
struct Part {
  Value value;
  ValueNumber number;
};

class ConcatSplitter {
 public:
  ConcatSplitter(const Graph& old, c10::ArrayRef<size_t> concatenations, c10::ArrayRef<size_t> cuts)
      : old_(old), concatenations_(concatenations), cuts_(cuts) {}

  SplitConcats split() {
    split_.graph.parameters = old_.parameters;
    split_.graph.scalars = old_.scalars;
    for (size_t i = 0, operand = 0; i < old_.calls.size(); ++i) {
      write_call(
          i,
          c10::ArrayRef<ValueNumber>(old_.operands).slice(operand, old_.calls[i]->values.size()));
      operand += old_.calls[i]->values.size();
    }
    for (size_t i = 0; i < old_.results.size(); ++i) {
      const auto result = result_of(old_.result_numbers[i], old_.results[i]);
      split_.graph.results.push_back(result.value);
      split_.graph.result_numbers.push_back(result.number);
    }
    split_.graph.hash = hash_of(split_.graph);
    auto& cuts = split_.cuts;
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    while (!cuts.empty() && cuts.back() == split_.graph.calls.size()) {
      cuts.pop_back();
    }
    return std::move(split_);
  }

 private:
  void write_call(size_t place, c10::ArrayRef<ValueNumber> operands) {
    const auto& call = *old_.calls[place];
    std::vector<Part> parts;
    parts.reserve(operands.size());
    for (size_t k = 0; k < operands.size(); ++k) {
      parts.push_back(result_of(operands[k], call.values[k]));
    }
    if (!cuts_.empty() && cuts_.front() == place) {
      cuts_ = cuts_.slice(1);
      cut();
    }
    if (concatenations_.empty() || concatenations_.front() != place) {
      const int64_t first = add(call, parts);
      for (size_t k = 0; k < call.spec().results.size(); ++k) {
        results_.push_back({Value(), ValueNumber::result(first + static_cast<int64_t>(k))});
      }
      return;
    }
    concatenations_ = concatenations_.slice(1);
    like_ = &call;
    if (call.spec().concatenates == Concatenation::new_dim) {
      parts = with_new_dim(parts);
    }
    const auto& type = call.spec().results[0].type;
    dim_ = dim_of(call.spec());
    const int64_t outer = c10::multiply_integers(type.sizes.begin(), type.sizes.begin() + dim_);
    // View all values as a matrix of rows, or as one row, so that one program serves all shapes.
    const int64_t inner = type_of(parts[0].value).numel() / outer;
    const auto rows = outer == 1 ? c10::DimVector{inner} : c10::DimVector{outer, inner};
    dim_ = static_cast<int64_t>(rows.size()) - 1;
    const auto matrices = reshape(parts, rows);
    const Part all = parts.size() == 1 ? concatenate_group(matrices) : concatenate(matrices);
    cut();
    results_.push_back(reshape({all}, type.sizes)[0]);
  }

  // Returns a value of the old graph in the new one. Calls that are kept have the same node in
  // both.
  Part result_of(ValueNumber number, const Value& value) const {
    if (number.is_parameter()) {
      return {value, number};
    }
    const auto& result = results_[number.index()];
    return {result.value.node ? result.value : value, result.number};
  }

  // Stacked values are concatenated along an additional dimension of size 1. This moves no element.
  std::vector<Part> with_new_dim(const std::vector<Part>& parts) {
    auto sizes = type_of(parts[0].value).sizes;
    sizes.insert(sizes.begin() + dim_of(like_->spec()), 1);
    return reshape(parts, sizes);
  }

  // Views values of one type with other sizes. This moves no element.
  std::vector<Part> reshape(c10::ArrayRef<Part> parts, c10::IntArrayRef sizes) {
    if (type_of(parts[0].value).sizes == sizes) {
      return parts.vec();
    }
    const auto spec = view_spec(type_of(parts[0].value), sizes, row_major_strides(sizes), 0);
    std::vector<Part> views;
    for (const auto& part : parts) {
      views.push_back(add_new(spec, {part}));
    }
    return views;
  }

  // Concatenates values of one type: groups of as many values as possible, then their results in
  // the same way. The values before the first whole group are the beginning of a group, too, which
  // overlaps the next one.
  Part concatenate(c10::ArrayRef<Part> parts) {
    if (parts.size() == 1) {
      return parts[0];
    }
    const size_t group =
        *std::find_if(kGroups.begin(), kGroups.end(), [&](size_t k) { return k <= parts.size(); });
    const size_t remaining = parts.size() % group;
    std::vector<Part> groups;
    for (size_t i = remaining; i < parts.size(); i += group) {
      groups.push_back(concatenate_group(parts.slice(i, group)));
    }
    Part last = concatenate(groups);
    if (remaining == 0) {
      return last;
    }
    if (remaining == 1) {
      cut();
      return add_cat({parts[0], last});
    }
    const Part first = concatenate_group(parts.slice(0, group));
    cut();
    return add_cat({beginning_of(first, type_of(parts[0].value).sizes[dim_] * remaining), last});
  }

  Part concatenate_group(c10::ArrayRef<Part> parts) {
    cut();
    return add_cat(parts);
  }

  // Returns a part of a value: that many elements along the concatenated dimension. Its memory is a
  // parameter of the program that reads it, as the recorder makes one for a part of a tensor.
  Part beginning_of(const Part& part, int64_t size) {
    const auto& type = type_of(part.value);
    const auto strides = row_major_strides(type.sizes);
    auto sizes = type.sizes;
    sizes[dim_] = size;
    int64_t extent = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      extent += (sizes[d] - 1) * strides[d];
    }
    const Part memory = add_new(view_spec(type, {extent}, {1}, 0), {part});
    return sizes.size() == 1
               ? memory
               : add_new(view_spec(type_of(memory.value), sizes, strides, 0), {memory});
  }

  Part add_cat(c10::ArrayRef<Part> parts) {
    std::vector<ValueType> types;
    for (const auto& part : parts) {
      types.push_back(type_of(part.value));
    }
    return add_new(cat_spec(types, dim_), parts);
  }

  // Adds a new call that replaces a part of the current concatenation.
  Part add_new(const CallSpecPtr& spec, c10::ArrayRef<Part> parts) {
    auto call = std::make_shared<CallNode>(like_->op(), spec, like_->sequence);
    call->origin = like_->origin;
    for (const auto& part : parts) {
      call->values.push_back(part.value);
    }
    const int64_t result = add(*call, parts);
    split_.calls.emplace_back(std::move(call), 0);
    return {split_.calls.back(), ValueNumber::result(result)};
  }

  // Adds a call and returns the index of its first result.
  int64_t add(const CallNode& call, c10::ArrayRef<Part> parts) {
    split_.graph.calls.push_back(&call);
    for (const auto& part : parts) {
      split_.graph.operands.push_back(part.number);
    }
    const int64_t first = next_result_;
    next_result_ += static_cast<int64_t>(call.spec().results.size());
    return first;
  }

  void cut() { split_.cuts.push_back(split_.graph.calls.size()); }

  const Graph& old_;
  c10::ArrayRef<size_t> concatenations_, cuts_; // not processed yet
  const CallNode* like_ = nullptr; // the current concatenation
  int64_t dim_ = 0; // along which its parts are concatenated
  std::vector<Part> results_; // of the old graph's calls, in the new graph
  int64_t next_result_ = 0;
  SplitConcats split_;
};

} // namespace

std::vector<size_t> find_concats(const Graph& graph) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    if (concatenates_one_type(*graph.calls[i])) {
      found.push_back(i);
    }
  }
  return found;
}

uint64_t concat_key(const CallNode& call) {
  const auto& type = type_of(call.values[0]);
  Hash128 hash;
  hash.add(call.spec().signature);
  hash.add(static_cast<uint64_t>(dim_of(call.spec())));
  for (const int64_t size : type.sizes) {
    hash.add(static_cast<uint64_t>(size));
  }
  return hash.low;
}

uint64_t operations_key(const Graph& graph) {
  Hash128 hash;
  for (const auto* call : graph.calls) {
    if (const auto signature = call->spec().signature;
        signature != 0) { // the number of views may depend on the number of values
      hash.add(signature);
    }
  }
  return hash.low;
}

SplitConcats split_concats(
    const Graph& graph, c10::ArrayRef<size_t> concatenations, c10::ArrayRef<size_t> cuts) {
  return ConcatSplitter(graph, concatenations, cuts).split();
}

} // namespace ftm
