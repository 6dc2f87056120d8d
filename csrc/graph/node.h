// Nodes of the pending graph, as torch::lazy knows them: values in device memory, and recorded
// calls.
#pragma once

#include "graph/call_spec.h"
#include "memory/buffer.h"
#include "support/python_location.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/lazy/core/ir.h>

namespace ftm {

using torch::lazy::NodePtr;
using torch::lazy::Value;

class TraceNode : public torch::lazy::Node {
 public:
  TraceNode(torch::lazy::OpKind kind, size_t results, bool is_data)
      : Node(kind, results), is_data(is_data) {}

  const bool is_data; // a DataNode; else a CallNode
  // For the walk that turns the pending graph into a program, under the recorder's lock: the walk
  // that reached the node last, and the node's place there.
  mutable uint32_t walk = 0;
  mutable int32_t position = 0;

  torch::lazy::hash_t hash() const override;
  torch::lazy::hash_t shapeHash() const override;
  c10::ArrayRef<torch::lazy::Shape> shapes() const override;
  const torch::lazy::Shape& shape(size_t index) const override;
  virtual const ValueType& type(size_t index) const = 0;
};

// A buffer, or a window of one, seen as a value of some type: a parameter of the programs that read
// it.
class DataNode final : public TraceNode {
 public:
  DataNode(BufferPtr buffer, ValueType type, int64_t offset);

  const ValueType& type(size_t) const override { return type_; }
  const BufferPtr& buffer() const { return buffer_; }
  // Where in the buffer the value begins, in elements of its type: no part of the program, so that
  // one program serves all windows of a shape.
  int64_t offset() const { return offset_; }
  bool is_window() const;

 private:
  BufferPtr buffer_;
  ValueType type_;
  int64_t offset_;
};

using Operands = c10::SmallVector<Value, 3>; // slots of kind value, in order

// One recorded call. The graph may be thousands of nodes deep: destruction does not recurse.
class CallNode final : public TraceNode {
 public:
  CallNode(torch::lazy::OpKind kind, CallSpecPtr spec, uint64_t sequence);
  ~CallNode() override;

  const ValueType& type(size_t index) const override { return form_->results[index].type; }
  const CallSpec& spec() const { return *form_; }
  const CallSpecPtr& form_ptr() const { return form_; }
  const std::vector<torch::lazy::Output>& operands() const override;
  std::string ToString() const override;

  const uint64_t sequence; // grows with every call recorded
  Operands values;
  c10::SmallVector<uint64_t, 2> scalars; // the other slots, in order: bits of f64 or i64
  PythonLine line; // that recorded the call, if it was noted

 private:
  CallSpecPtr form_;
};

inline const TraceNode& trace_node(const Value& value) {
  return static_cast<const TraceNode&>(*value.node);
}

inline const ValueType& type_of(const Value& value) {
  return trace_node(value).type(value.index);
}

Value data_value(BufferPtr buffer, ValueType type, int64_t offset = 0);

} // namespace ftm
