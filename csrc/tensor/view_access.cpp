#include "tensor/view_access.h"

#include "graph/call_spec_cache.h"
#include "graph/pending_trace.h"
#include "graph/view_spec.h"
#include "support/runtime.h"

namespace ftm {
namespace {

struct ViewSpecs final : CallSpecCache {}; // guarded by the recorder's lock

CallSpecCache& view_specs() {
  return part<ViewSpecs>();
}

enum class ViewOp : uint8_t { view, update, bitcast, memory_order };

void add_extents(Key& key, c10::IntArrayRef extents) {
  key.push_back(extents.size());
  key.append(extents.begin(), extents.end());
}

// `parameter` is the offset, or the dtype of a bitcast.
Key view_key(
    ViewOp op, const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t parameter) {
  Key key;
  key.push_back(static_cast<uint64_t>(op) << 8 | static_cast<uint64_t>(base.dtype));
  add_extents(key, base.sizes);
  add_extents(key, sizes);
  add_extents(key, strides);
  key.push_back(parameter);
  return key;
}

torch::lazy::OpKind kind_of(const CallSpec& spec) {
  static const auto view = torch::lazy::OpKind::Get("ftm::view");
  static const auto update = torch::lazy::OpKind::Get("ftm::update");
  static const auto bitcast = torch::lazy::OpKind::Get("ftm::bitcast");
  return spec.kind == CallSpec::Kind::view     ? view
         : spec.kind == CallSpec::Kind::update ? update
                                               : bitcast;
}

// Records a call of the spec with this key; `make` makes the spec if it is not cached.
template <typename Make>
Value add_view_call(const Key& key, c10::ArrayRef<Value> values, Make make) {
  const uint64_t hash = hash_words(key.data(), key.size());
  const CallSpecPtr* found = view_specs().find(key, hash);
  const CallSpecPtr& spec = found != nullptr ? *found : view_specs().insert(key, hash, make());
  return add_call(kind_of(*spec), spec, Operands(values), {});
}

} // namespace

Value strided_view(Value base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  if (!trace_node(base).is_data && offset == 0) {
    // A permuted result that was put into memory order is read back: return the result itself.
    const auto& call = static_cast<const CallNode&>(trace_node(base));
    const auto& spec = call.spec();
    if (!spec.layout_strides.empty() && sizes == spec.layout_sizes &&
        strides == spec.layout_strides) {
      return call.values[0];
    }
  }
  const auto key = view_key(ViewOp::view, type_of(base), sizes, strides, offset);
  return add_view_call(
      key, {base}, [&] { return view_spec(type_of(base), sizes, strides, offset); });
}

Value updated(
    const Value& base, const Value& value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t offset) {
  const auto key = view_key(ViewOp::update, type_of(base), sizes, strides, offset);
  return add_view_call(
      key, {base, value}, [&] { return update_spec(type_of(base), sizes, strides, offset); });
}

Value in_memory_order(Value value, c10::IntArrayRef strides) {
  const auto& type = type_of(value);
  if (is_row_major(type.sizes, strides)) {
    return value;
  }
  if (!trace_node(value).is_data) {
    // The inverse of the shortcut in `strided_view`: a permuting view is put back into memory
    // order.
    const auto& call = static_cast<const CallNode&>(trace_node(value));
    if (call.spec().kind == CallSpec::Kind::view && call.spec().offset == 0 &&
        call.spec().sizes == type.sizes && call.spec().strides == strides &&
        type_of(call.values[0]).numel() == type.numel()) {
      return call.values[0];
    }
  }
  const auto key = view_key(ViewOp::memory_order, type, type.sizes, strides, 0);
  return add_view_call(key, {value}, [&] { return memory_order_spec(type, strides); });
}

Value bitcast(const Value& base, at::ScalarType dtype) {
  const auto& type = type_of(base);
  if (trace_node(base).is_data) {
    // A buffer is untyped bytes, so a parameter of the other dtype replaces the call.
    const auto& data = static_cast<const DataNode&>(trace_node(base));
    const int64_t bytes = type.numel() * static_cast<int64_t>(c10::elementSize(type.dtype));
    return data_value(
        data.buffer(), {dtype, {bytes / static_cast<int64_t>(c10::elementSize(dtype))}});
  }
  const auto key = view_key(ViewOp::bitcast, type, {}, {}, static_cast<int64_t>(dtype));
  return add_view_call(key, {base}, [&] { return bitcast_spec(type, dtype); });
}

} // namespace ftm
