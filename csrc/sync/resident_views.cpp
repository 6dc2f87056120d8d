#include "sync/resident_views.h"

#include "graph/view_spec.h"
#include "support/strict_mode.h"
#include "execute/launcher.h"

#include <cstring>

namespace ftm {
namespace {

// Returns the buffer that a pending value is a contiguous view of, or null.
const DataNode* source_of(const Value& value) {
  const auto& call = static_cast<const CallNode&>(trace_node(value));
  const auto& spec = call.spec();
  if (spec.kind != CallSpec::Kind::view || !is_row_major(spec.sizes, spec.strides) || is_strict()) {
    return nullptr;
  }
  const auto& base = trace_node(call.values[0]);
  return base.is_data ? &static_cast<const DataNode&>(base) : nullptr;
}

} // namespace

bool copy_resident_view(Variable& variable, RecorderLock& lock) {
  Value value = variable.value();
  const auto* source = source_of(value);
  if (source == nullptr) {
    return false;
  }
  const ValueType type = type_of(value);
  const auto& spec = static_cast<const CallNode&>(trace_node(value)).spec();
  const auto from = source->buffer();
  const int64_t begin =
      (source->offset() + spec.offset) * static_cast<int64_t>(c10::elementSize(type.dtype));
  Value old;
  lock.unlock();
  wait_for(from);
  const auto row = std::make_shared<Buffer>(type.dtype, type.sizes);
  row->allocate();
  if (row->nbytes() != 0) {
    std::memcpy(row->data(), static_cast<const char*>(from->data()) + begin, row->nbytes());
  }
  const bool is_whole = from->shape().sizes() == c10::IntArrayRef(type.sizes);
  row->set_varying_dims(
      is_whole || from->varying_dims() == 0 ? from->varying_dims() : ~uint64_t{0});
  row->set_ready();
  lock.lock();
  if (variable.value().node == value.node && variable.trace() != nullptr) {
    old = variable.set_computed(data_value(row, type)); // the next program need not compute it
  }
  lock.unlock();
  old = value = Value(); // may free many nodes, so do it without the lock
  lock.lock();
  return true;
}

} // namespace ftm
