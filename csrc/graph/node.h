// Nodes of the pending graph, as torch::lazy defines them: values in device memory, and recorded
// calls.
#pragma once

#include "graph/call_spec.h"
#include "graph/source_location.h"
#include "memory/buffer.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/lazy/core/ir.h>

namespace ftm {

using torch::lazy::NodePtr;
using torch::lazy::Value;

class TraceNode : public torch::lazy::Node {
 public:
  TraceNode(torch::lazy::OpKind kind, size_t results, bool is_data)
      : Node(kind, results), is_data(is_data) {}

  const bool is_data; // a DataNode, otherwise a CallNode
  // Scratch of collect_graph, under the recorder's lock: the last traversal that reached the node,
  // and the node's number in it.
  mutable uint32_t walk = 0;
  mutable int32_t position = 0;

  torch::lazy::hash_t hash() const override;
  torch::lazy::hash_t shapeHash() const override;
  c10::ArrayRef<torch::lazy::Shape> shapes() const override;
  const torch::lazy::Shape& shape(size_t index) const override;
  virtual const ValueType& type(size_t index) const = 0;
};

// A buffer, or a part of one, as a value of some type. It is a parameter of the programs that read
// it.
class DataNode final : public TraceNode {
 public:
  DataNode(BufferPtr buffer, ValueType type, int64_t offset);

  const ValueType& type(size_t) const override { return type_; }
  const BufferPtr& buffer() const { return buffer_; }
  // Where the value begins in the buffer, in elements of its type. The offset is a launch argument,
  // so one program serves all parts of a buffer with the same shape.
  int64_t offset() const { return offset_; }
  // Whether the value is not the whole buffer.
  bool is_partial() const;

 private:
  BufferPtr buffer_;
  ValueType type_;
  int64_t offset_;
};

using Operands = c10::SmallVector<Value, 3>; // operands of kind value, in order

// One recorded call. Its destructor does not recurse, since a graph may be thousands of nodes deep.
class CallNode final : public TraceNode {
 public:
  CallNode(torch::lazy::OpKind kind, CallSpecPtr spec, uint64_t sequence);
  ~CallNode() override;

  const ValueType& type(size_t index) const override { return spec_->results[index].type; }
  const CallSpec& spec() const { return *spec_; }
  const CallSpecPtr& spec_ptr() const { return spec_; }
  const std::vector<torch::lazy::Output>& operands() const override;
  std::string ToString() const override;

  const uint64_t sequence; // position in recording order, over all threads
  Operands values;
  c10::SmallVector<uint64_t, 2> scalars; // other operands, in order: bits of f64 or i64
  CallOriginPtr origin; // where the call comes from; null if it was not noted

 private:
  CallSpecPtr spec_;
};

inline const TraceNode& trace_node(const Value& value) {
  return static_cast<const TraceNode&>(*value.node);
}

inline const ValueType& type_of(const Value& value) {
  return trace_node(value).type(value.index);
}

// Makes a value that is a buffer's elements from `offset` on, in elements of `type`.
Value data_value(BufferPtr buffer, ValueType type, int64_t offset = 0);

} // namespace ftm
