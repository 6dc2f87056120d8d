#include "tensor/views.h"

#include "recorder/record.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <torch/library.h>

namespace ftm {
namespace {

struct WindowForms {
  ska::flat_hash_map<uint64_t, std::vector<Op::Entry>> table; // guarded by the recorder's lock
};

WindowForms& window_forms() {
  static auto* forms = new WindowForms;
  return *forms;
}

constexpr size_t kMostForms = 1 << 16;

using Key = c10::SmallVector<uint64_t, 48>;

void add_extents(Key& key, c10::IntArrayRef extents) {
  key.push_back(extents.size());
  key.append(extents.begin(), extents.end());
}

template <typename Make>
const FormPtr& cached_form(const Key& key, Make make) {
  auto& table = window_forms().table;
  const uint64_t hash = hash_words(key.data(), key.size());
  auto found = table.find(hash);
  if (found != table.end()) {
    for (const auto& entry : found->second) {
      if (entry.key.size() == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) {
        return entry.form;
      }
    }
  }
  if (table.size() >= kMostForms) {
    table.clear(); // nodes keep their own
  }
  auto& entries = table[hash];
  entries.push_back({std::vector<uint64_t>(key.begin(), key.end()), make()});
  return entries.back().form;
}

Key window_key(
    Form::Kind kind, const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t offset) {
  Key key;
  key.push_back(static_cast<uint64_t>(kind) << 8 | static_cast<uint64_t>(base.dtype));
  add_extents(key, base.sizes);
  add_extents(key, sizes);
  add_extents(key, strides);
  key.push_back(offset);
  return key;
}

torch::lazy::OpKind window_kind(Form::Kind kind) {
  static const auto view = torch::lazy::OpKind::Get("ftm::view");
  static const auto update = torch::lazy::OpKind::Get("ftm::update");
  static const auto bitcast = torch::lazy::OpKind::Get("ftm::bitcast");
  return kind == Form::Kind::view ? view : kind == Form::Kind::update ? update : bitcast;
}

Value bitcast(Value base, at::ScalarType dtype) {
  const auto& type = type_of(base);
  if (trace_node(base).is_data) {
    // A buffer is bytes: another parameter of the other dtype says the same.
    const auto& data = static_cast<const DataNode&>(trace_node(base));
    const int64_t bytes = type.numel() * static_cast<int64_t>(c10::elementSize(type.dtype));
    return data_value(data.buffer(), {dtype, {bytes / static_cast<int64_t>(c10::elementSize(dtype))}});
  }
  Key key;
  key.push_back(static_cast<uint64_t>(Form::Kind::bitcast) << 8 | static_cast<uint64_t>(type.dtype));
  key.push_back(static_cast<uint64_t>(dtype));
  add_extents(key, type.sizes);
  const auto& form = cached_form(key, [&] { return bitcast_form(type, dtype); });
  return add_call(window_kind(form->kind), form, {base}, {});
}

bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= sizes[i];
  }
  return true;
}

} // namespace

Value strided_view(Value base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  if (!trace_node(base).is_data && offset == 0) {
    // A permuted result that was put in memory order, read back as itself.
    const auto& call = static_cast<const CallNode&>(trace_node(base));
    const auto& form = call.form();
    if (!form.layout_strides.empty() && sizes == form.layout_sizes && strides == form.layout_strides) {
      return call.values[0];
    }
  }
  const auto key = window_key(Form::Kind::view, type_of(base), sizes, strides, offset);
  const auto& form =
      cached_form(key, [&] { return view_form(type_of(base), sizes, strides, offset); });
  return add_call(window_kind(form->kind), form, {base}, {});
}

Value updated(
    Value base, Value value, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  const auto key = window_key(Form::Kind::update, type_of(base), sizes, strides, offset);
  const auto& form =
      cached_form(key, [&] { return update_form(type_of(base), sizes, strides, offset); });
  return add_call(window_kind(form->kind), form, {base, value}, {});
}

Value in_memory_order(Value value, c10::IntArrayRef strides) {
  const auto& type = type_of(value);
  if (is_row_major(type.sizes, strides)) {
    return value;
  }
  if (!trace_node(value).is_data) {
    // The reverse of what `strided_view` undoes: a view of memory order, put back.
    const auto& call = static_cast<const CallNode&>(trace_node(value));
    if (call.form().kind == Form::Kind::view && call.form().offset == 0 &&
        call.form().sizes == type.sizes && call.form().strides == strides &&
        type_of(call.values[0]).numel() == type.numel()) {
      return call.values[0];
    }
  }
  Key key = window_key(Form::Kind::view, type, type.sizes, strides, -1); // no view has this offset
  const auto& form = cached_form(key, [&] { return layout_form(type, strides); });
  return add_call(window_kind(form->kind), form, {value}, {});
}

Value zeros(ValueType type) {
  static Op& op = op_named("aten::zeros");
  return call_on_values(
      op, {at::IntArrayRef(type.sizes), type.dtype, c10::IValue(), c10::IValue(), c10::IValue()}, {}, {}, type);
}

Value converted(Value value, at::ScalarType dtype) {
  const auto& type = type_of(value);
  if (type.dtype == dtype) {
    return value;
  }
  static Op& op = op_named("aten::_to_copy");
  std::vector<c10::IValue> arguments(7);
  arguments[1] = dtype;
  arguments[5] = false;
  ValueType result = type;
  result.dtype = dtype;
  return call_on_values(op, std::move(arguments), {0}, {value}, result);
}

Value broadcast(Value value, c10::IntArrayRef sizes) {
  const auto& type = type_of(value);
  if (type.sizes == sizes) {
    return value;
  }
  static Op& op = op_named("aten::expand");
  return call_on_values(
      op, {c10::IValue(), sizes, false}, {0}, {value}, {type.dtype, c10::DimVector(sizes)});
}

Value whole(Variable& variable, at::ScalarType dtype) {
  const auto itemsize = static_cast<int64_t>(c10::elementSize(dtype));
  Value value = variable.value();
  if (!value.node) {
    value = zeros({dtype, {variable.nbytes() / itemsize}});
    variable.set_value(value);
  } else if (type_of(value).dtype != dtype) {
    value = bitcast(value, dtype);
  }
  return value;
}

namespace {

// What is read of a buffer through a window that leaves some of it out is a parameter of its own: one program
// serves the batches of a data set, and the elements that a loop reads. A variable that is written over is state,
// and its buffer is donated to its next value: that needs the buffer to be one parameter.
Value window_of(const DataNode& data, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    extent += (sizes[i] - 1) * strides[i];
  }
  const auto& type = data.type(0);
  if (extent == type.numel()) {
    return {};
  }
  if (is_row_major(sizes, strides)) {
    return data_value(data.buffer(), {type.dtype, c10::DimVector(sizes)}, offset);
  }
  return strided_view(data_value(data.buffer(), {type.dtype, {extent}}, offset), sizes, strides, 0);
}

// A variable's content is a whole buffer, or a call.
Value without_window(Value value) {
  if (!value.node || !trace_node(value).is_data || !static_cast<const DataNode&>(trace_node(value)).is_window()) {
    return value;
  }
  const ValueType type = type_of(value);
  c10::DimVector strides(type.sizes.size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0; stride *= type.sizes[i]) {
    strides[i] = stride;
  }
  return strided_view(std::move(value), type.sizes, strides, 0);
}

} // namespace

Value read(const at::TensorImpl& tensor) {
  const auto dtype = c10::typeMetaToScalarType(tensor.dtype());
  if (tensor.numel() == 0) {
    const c10::DimVector sizes(tensor.sizes());
    auto buffer = std::make_shared<Buffer>(dtype, sizes);
    buffer->allocate();
    buffer->set_ready();
    return data_value(std::move(buffer), {dtype, sizes});
  }
  Variable& variable = variable_of(tensor);
  Value base = whole(variable, dtype);
  if (tensor.storage_offset() == 0 && tensor.is_contiguous() && type_of(base).sizes == tensor.sizes()) {
    return base;
  }
  if (trace_node(base).is_data && !variable.rewritten()) {
    const auto& data = static_cast<const DataNode&>(trace_node(base));
    if (Value window = window_of(data, tensor.sizes(), tensor.strides(), tensor.storage_offset()); window.node) {
      return window;
    }
  }
  return strided_view(std::move(base), tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

void write(const at::TensorImpl& tensor, Value value) {
  const int64_t numel = tensor.numel();
  if (numel == 0) {
    return;
  }
  Variable& variable = variable_of(tensor);
  const bool covers = numel * static_cast<int64_t>(tensor.itemsize()) == variable.nbytes() &&
      tensor.storage_offset() == 0;
  if (covers && tensor.is_contiguous()) {
    variable.set_value(without_window(std::move(value)));
  } else if (covers && tensor.is_non_overlapping_and_dense()) {
    variable.set_value(without_window(in_memory_order(std::move(value), tensor.strides())));
  } else {
    Value base = whole(variable, c10::typeMetaToScalarType(tensor.dtype()));
    variable.set_value(updated(
        std::move(base), std::move(value), tensor.sizes(), tensor.strides(), tensor.storage_offset()));
  }
}

at::Tensor make_tensor(
    const ValueType& type, c10::IntArrayRef strides, bool contiguous, Value value) {
  const int64_t nbytes = type.numel() * static_cast<int64_t>(c10::elementSize(type.dtype));
  Variable* variable = nullptr;
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), nbytes, make_data_ptr(nbytes, &variable),
      c10::GetAllocator(c10::kPrivateUse1), /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(type.dtype));
  if (contiguous) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(type.sizes);
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(type.sizes, strides);
    if (value.node) {
      value = in_memory_order(std::move(value), strides);
    }
  }
  if (value.node) {
    variable->set_value(without_window(std::move(value)));
  }
  return tensor;
}

void forget_view_forms() {
  const RecorderLock lock(recorder_mutex());
  window_forms().table.clear();
}

// Views are ATen's own: they touch sizes, strides and offset only.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
}

} // namespace ftm
