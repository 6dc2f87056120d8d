#include "graph/node.h"

#include <sstream>

namespace ftm {
namespace {

torch::lazy::OpKind data_kind() {
  static const auto kind = torch::lazy::OpKind::Get("ftm::data");
  return kind;
}

torch::lazy::Shape lazy_shape(const ValueType& type) {
  return torch::lazy::Shape(type.dtype, type.sizes);
}

} // namespace

torch::lazy::hash_t TraceNode::hash() const {
  // Nodes of one type may differ. Programs are looked up by the hash of the whole graph
  // (graph/ordered_graph.h).
  return torch::lazy::hash_t(reinterpret_cast<uintptr_t>(this));
}

torch::lazy::hash_t TraceNode::shapeHash() const {
  return hash();
}

c10::ArrayRef<torch::lazy::Shape> TraceNode::shapes() const {
  // Built on demand, since only torch::lazy's debugging tools use it.
  auto& shapes = const_cast<TraceNode*>(this)->shapes_;
  while (shapes.size() < num_outputs()) {
    shapes.push_back(lazy_shape(type(shapes.size())));
  }
  return shapes;
}

const torch::lazy::Shape& TraceNode::shape(size_t index) const {
  return shapes()[index];
}

DataNode::DataNode(BufferPtr buffer, ValueType type, int64_t offset)
    : TraceNode(data_kind(), 1, true),
      buffer_(std::move(buffer)),
      type_(std::move(type)),
      offset_(offset) {}

bool DataNode::is_partial() const {
  return type_.numel() * c10::elementSize(type_.dtype) != buffer_->nbytes();
}

CallNode::CallNode(torch::lazy::OpKind kind, CallSpecPtr spec, uint64_t sequence)
    : TraceNode(kind, spec->results.size(), false), sequence(sequence), spec_(std::move(spec)) {}

CallNode::~CallNode() {
  // The outermost destructor on this thread collects the operands of every node that dies with it.
  thread_local std::vector<NodePtr>* dying = nullptr;
  if (dying != nullptr) {
    for (auto& value : values) {
      dying->push_back(std::move(value.node));
    }
    return;
  }
  std::vector<NodePtr> pending;
  dying = &pending;
  for (auto& value : values) {
    pending.push_back(std::move(value.node));
  }
  while (!pending.empty()) {
    const NodePtr node = std::move(pending.back());
    pending.pop_back();
  }
  dying = nullptr;
}

const std::vector<torch::lazy::Output>& CallNode::operands() const {
  auto& outputs = const_cast<CallNode*>(this)->operands_as_outputs_;
  while (outputs.size() < values.size()) {
    outputs.emplace_back(values[outputs.size()].node.get(), values[outputs.size()].index);
  }
  return outputs;
}

std::string CallNode::ToString() const {
  std::ostringstream text;
  text << spec_->name << " #" << sequence;
  return text.str();
}

Value data_value(BufferPtr buffer, ValueType type, int64_t offset) {
  return Value(std::make_shared<DataNode>(std::move(buffer), std::move(type), offset), 0);
}

} // namespace ftm
