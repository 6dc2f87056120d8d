#include "tensor/view_access.h"

#include "graph/call_spec_cache.h"
#include "graph/pending_trace.h"
#include "graph/view_spec.h"

namespace ftm {
namespace {

CallSpecCache& window_forms() { // guarded by the recorder's lock
  static auto* specs = new CallSpecCache();
  return *specs;
}

enum class Window : uint8_t { view, update, bitcast, memory_order };

void add_extents(Key& key, c10::IntArrayRef extents) {
  key.push_back(extents.size());
  key.append(extents.begin(), extents.end());
}

// `parameter`: the offset; of a bitcast the dtype.
Key window_key(
    Window window, const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t parameter) {
  Key key;
  key.push_back(static_cast<uint64_t>(window) << 8 | static_cast<uint64_t>(base.dtype));
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

// A call of the form that `key` tells everything about, made by `make` if there is none yet.
template <typename Make>
Value add_window(const Key& key, c10::ArrayRef<Value> values, Make make) {
  const uint64_t hash = hash_words(key.data(), key.size());
  const CallSpecPtr* found = window_forms().find(key, hash);
  const CallSpecPtr& spec = found != nullptr ? *found : window_forms().keep(key, hash, make());
  return add_call(kind_of(*spec), spec, Operands(values), {});
}

} // namespace

Value strided_view(Value base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  if (!trace_node(base).is_data && offset == 0) {
    // A permuted result that was put in memory order, read back as itself.
    const auto& call = static_cast<const CallNode&>(trace_node(base));
    const auto& spec = call.spec();
    if (!spec.layout_strides.empty() && sizes == spec.layout_sizes &&
        strides == spec.layout_strides) {
      return call.values[0];
    }
  }
  const auto key = window_key(Window::view, type_of(base), sizes, strides, offset);
  return add_window(key, {base}, [&] { return view_form(type_of(base), sizes, strides, offset); });
}

Value updated(
    const Value& base, const Value& value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t offset) {
  const auto key = window_key(Window::update, type_of(base), sizes, strides, offset);
  return add_window(
      key, {base, value}, [&] { return update_form(type_of(base), sizes, strides, offset); });
}

Value in_memory_order(Value value, c10::IntArrayRef strides) {
  const auto& type = type_of(value);
  if (is_row_major(type.sizes, strides)) {
    return value;
  }
  if (!trace_node(value).is_data) {
    // The reverse of what `strided_view` undoes: a view of memory order, put back.
    const auto& call = static_cast<const CallNode&>(trace_node(value));
    if (call.spec().kind == CallSpec::Kind::view && call.spec().offset == 0 &&
        call.spec().sizes == type.sizes && call.spec().strides == strides &&
        type_of(call.values[0]).numel() == type.numel()) {
      return call.values[0];
    }
  }
  const auto key = window_key(Window::memory_order, type, type.sizes, strides, 0);
  return add_window(key, {value}, [&] { return memory_order_form(type, strides); });
}

Value bitcast(const Value& base, at::ScalarType dtype) {
  const auto& type = type_of(base);
  if (trace_node(base).is_data) {
    // A buffer is bytes: another parameter of the other dtype says the same.
    const auto& data = static_cast<const DataNode&>(trace_node(base));
    const int64_t bytes = type.numel() * static_cast<int64_t>(c10::elementSize(type.dtype));
    return data_value(
        data.buffer(), {dtype, {bytes / static_cast<int64_t>(c10::elementSize(dtype))}});
  }
  const auto key = window_key(Window::bitcast, type, {}, {}, static_cast<int64_t>(dtype));
  return add_window(key, {base}, [&] { return bitcast_form(type, dtype); });
}

} // namespace ftm
