#include "partition/subgraphs.h"

#include "graph/view_spec.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace ftm {
namespace {

// Makes the buffer for a result. `seen_as`: its type outside of the subgraphs, if that differs.
Value new_buffer(const Value& result, const ValueType* seen_as = nullptr) {
  const auto& type = type_of(result);
  return data_value(
      std::make_shared<Buffer>(type.dtype, (seen_as != nullptr ? *seen_as : type).sizes), type);
}

const DataNode& data_node(const Value& value) {
  return static_cast<const DataNode&>(trace_node(value));
}

bool same_elements(const ValueType& one, const ValueType& other) {
  return one.dtype == other.dtype && one.numel() == other.numel();
}

// Where a value's elements are: in `root`, from element `offset` on.
struct Source {
  ValueNumber root;
  int64_t offset;
};

class Cutter {
 public:
  Cutter(const Graph& whole, c10::ArrayRef<size_t> positions)
      : whole_(whole), begins_(positions.vec()) {
    if (begins_.empty() || begins_.front() != 0) {
      begins_.insert(begins_.begin(), 0);
    }
    read_calls();
    find_values();
    read_results();
    mark_needed();
    position_.resize(sources_.size());
    outputs_.resize(sources_.size());
    locations_.resize(sources_.size());
  }

  PartitionedGraph cut() {
    for (size_t k = 0; k < begins_.size(); ++k) {
      write_piece(k);
    }
    for (size_t i = 0; i < whole_.results.size(); ++i) {
      const auto root = root_of_result_[i];
      const auto& output = outputs_[root];
      const auto& type = type_of(whole_.results[i]);
      partitioned_.results.push_back(locations_[root]);
      partitioned_.values.push_back(
          type_of(output) == type ? output : data_value(data_node(output).buffer(), type));
    }
    return std::move(partitioned_);
  }

 private:
  size_t end_of(size_t subgraph) const {
    return subgraph + 1 < begins_.size() ? begins_[subgraph + 1] : whole_.calls.size();
  }

  // Whether the value is a parameter, or produced in another subgraph.
  bool is_outside(ValueNumber root, size_t subgraph) const {
    return root.is_parameter() || subgraph_of_[root.index()] != static_cast<int32_t>(subgraph);
  }

  Source source_of(ValueNumber value) const {
    return value.is_parameter() ? Source{value, 0} : sources_[value.index()];
  }

  void read_calls() {
    size_t operand = 0, subgraph = 0;
    for (size_t i = 0; i < whole_.calls.size(); ++i) {
      const auto& spec = whole_.calls[i]->spec();
      subgraph += subgraph + 1 < begins_.size() && i == begins_[subgraph + 1] ? 1 : 0;
      for (size_t k = 0; k < spec.results.size(); ++k) {
        Source source{ValueNumber::result(static_cast<int64_t>(sources_.size())), 0};
        if (spec.kind == CallSpec::Kind::view && is_row_major(spec.sizes, spec.strides)) {
          source = source_of(whole_.operands[operand]);
          source.offset += spec.offset;
        }
        sources_.push_back(source);
        subgraph_of_.push_back(static_cast<int32_t>(subgraph));
      }
      operand += whole_.calls[i]->values.size();
    }
  }

  // Finds the results of the whole graph. If a result is a view of all elements of a call's result,
  // which is no result itself, that call's result replaces it.
  void read_results() {
    is_result_.resize(sources_.size());
    seen_as_.resize(sources_.size());
    for (const auto result : whole_.result_numbers) {
      TORCH_INTERNAL_ASSERT(!result.is_parameter(), "a result is computed");
      is_result_[result.index()] = true;
    }
    for (size_t i = 0; i < whole_.results.size(); ++i) {
      const int64_t result = whole_.result_numbers[i].index();
      const auto source = sources_[result];
      const bool is_partial = !source.root.is_parameter() && source.root.index() != result;
      const int64_t root = is_partial ? source.root.index() : result;
      const auto& type = type_of(whole_.results[i]);
      if (!is_partial || is_result_[root] || !same_elements(type_of(values_[root]), type)) {
        root_of_result_.push_back(result);
        continue;
      }
      is_result_[result] = false;
      is_result_[root] = true;
      seen_as_[root] = &type;
      root_of_result_.push_back(root);
    }
  }

  // Backward pass over the calls: finds the calls that their subgraphs need, and the results that
  // other subgraphs need. A contiguous view of another subgraph's value needs no call, unless it is
  // a result.
  void mark_needed() {
    needed_ = is_result_;
    is_live_.resize(whole_.calls.size());
    std::vector<bool> inside(sources_.size()); // needed in its own subgraph
    size_t subgraph = begins_.size() - 1, result = sources_.size(),
           operand = whole_.operands.size();
    for (size_t i = whole_.calls.size(); i-- > 0;) {
      const auto& call = *whole_.calls[i];
      while (i < begins_[subgraph]) {
        --subgraph;
      }
      operand -= call.values.size();
      for (size_t k = call.spec().results.size(); k-- > 0;) {
        --result;
        is_live_[i] = is_live_[i] || needed_[result] || inside[result];
      }
      if (!is_live_[i]) {
        continue;
      }
      for (size_t k = 0; k < call.values.size(); ++k) {
        const auto value = whole_.operands[operand + k];
        const auto root = source_of(value).root;
        if (!is_outside(root, subgraph)) {
          inside[value.index()] = true;
        } else if (!root.is_parameter()) {
          needed_[root.index()] = true;
        }
      }
    }
  }

  void find_values() {
    values_.resize(sources_.size());
    for (size_t i = 0, operand = 0; i < whole_.calls.size(); ++i) {
      for (const auto& value : whole_.calls[i]->values) {
        const auto number = whole_.operands[operand++];
        if (!number.is_parameter()) {
          values_[number.index()] = value;
        }
      }
    }
    for (size_t i = 0; i < whole_.results.size(); ++i) {
      values_[whole_.result_numbers[i].index()] = whole_.results[i];
    }
  }

  void write_piece(size_t number) {
    Subgraph subgraph;
    std::vector<int64_t> results; // needed outside of the subgraph; numbered as in the whole graph
    int64_t position = 0;
    by_buffer_.clear();
    for (size_t i = begins_[number]; i < end_of(number); ++i) {
      const auto& call = *whole_.calls[i];
      for (const auto& value : call.values) {
        const auto operand = whole_.operands[next_operand_++];
        if (is_live_[i]) {
          subgraph.graph.operands.push_back(number_of(operand, type_of(value), number, subgraph));
        }
      }
      if (is_live_[i]) {
        subgraph.graph.calls.push_back(&call);
        subgraph.graph.scalars.insert(
            subgraph.graph.scalars.end(), call.scalars.begin(), call.scalars.end());
      }
      for (size_t k = 0; k < call.spec().results.size(); ++k, ++next_result_) {
        position_[next_result_] = is_live_[i] ? position++ : -1;
        if (needed_[next_result_]) {
          results.push_back(next_result_);
        }
      }
    }
    if (results.empty()) {
      return; // the subgraph has only views
    }
    for (const int64_t result : results) {
      locations_[result] = {partitioned_.subgraphs.size(), subgraph.outputs.size()};
      outputs_[result] = new_buffer(values_[result], seen_as_[result]);
      subgraph.graph.results.push_back(values_[result]);
      subgraph.graph.result_numbers.push_back(ValueNumber::result(position_[result]));
      subgraph.outputs.push_back(outputs_[result]);
    }
    subgraph.graph.hash = hash_of(subgraph.graph);
    partitioned_.subgraphs.push_back(std::move(subgraph));
  }

  // Returns the number, in the subgraph, of a value of the whole graph.
  ValueNumber number_of(
      ValueNumber value, const ValueType& type, size_t number, Subgraph& subgraph) {
    const auto source = source_of(value);
    if (!is_outside(source.root, number)) {
      return ValueNumber::result(position_[value.index()]);
    }
    const auto root = source.root.index();
    const auto& data =
        source.root.is_parameter() ? *whole_.parameters[root] : data_node(outputs_[root]);
    const int64_t offset = data.offset() + source.offset;
    auto& parameters = subgraph.graph.parameters;
    auto& seen = by_buffer_[data.buffer().get()];
    for (const auto position : seen) {
      if (parameters[position]->offset() == offset && parameters[position]->type(0) == type) {
        return ValueNumber::parameter(static_cast<int64_t>(position));
      }
    }
    seen.push_back(parameters.size());
    if (source.offset == 0 && data.type(0) == type) {
      parameters.push_back(&data);
    } else {
      subgraph.kept.push_back(data_value(data.buffer(), type, offset));
      parameters.push_back(static_cast<const DataNode*>(subgraph.kept.back().node.get()));
    }
    return ValueNumber::parameter(static_cast<int64_t>(seen.back()));
  }

  const Graph& whole_;
  std::vector<size_t> begins_; // first call of each subgraph

  std::vector<bool> is_live_; // by call: its subgraph needs it

  // By result of the whole graph's calls:
  std::vector<Source> sources_;
  std::vector<int32_t> subgraph_of_;
  std::vector<bool> is_result_; // of the whole graph, or replaces one
  std::vector<const ValueType*> seen_as_; // type of the result that it replaces; null if none
  std::vector<bool> needed_; // by other subgraphs, or a result
  std::vector<int64_t> position_; // among the results of its subgraph's calls
  std::vector<Value> values_; // of results that are used
  std::vector<Value> outputs_; // of results that are needed
  std::vector<ResultLocation> locations_;

  std::vector<int64_t> root_of_result_; // by result of the whole graph: the call's result it is

  // Position in the whole graph:
  int64_t next_result_ = 0;
  size_t next_operand_ = 0;
  // Parameters of the current subgraph.
  std::unordered_map<const Buffer*, c10::SmallVector<size_t, 1>> by_buffer_;
  PartitionedGraph partitioned_;
};

} // namespace

PartitionedGraph single_subgraph(Graph graph) {
  PartitionedGraph partitioned;
  Subgraph subgraph;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    subgraph.outputs.push_back(new_buffer(graph.results[i]));
    partitioned.results.push_back({0, i});
    partitioned.values.push_back(subgraph.outputs.back());
  }
  subgraph.graph = std::move(graph);
  partitioned.subgraphs.push_back(std::move(subgraph));
  return partitioned;
}

PartitionedGraph cut_graph(const Graph& whole, c10::ArrayRef<size_t> positions) {
  return Cutter(whole, positions).cut();
}

} // namespace ftm
