#include "tensor/tensor_access.h"

#include "graph/view_spec.h"
#include "ops/call_on_values.h"
#include "tensor/view_access.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/strides.h>

namespace ftm {

Value whole_value(Variable& variable, at::ScalarType dtype) {
  const auto itemsize = static_cast<int64_t>(c10::elementSize(dtype));
  Value value = variable.value();
  if (!value.node) {
    value = zeros({dtype, {variable.nbytes() / itemsize}});
    variable.set_initial_value(value);
  } else if (type_of(value).dtype != dtype) {
    value = bitcast(value, dtype);
  }
  return value;
}

Region region_of(const at::TensorImpl& tensor) {
  const auto& storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
  const StorageSlice slice = storage_slice(storage);
  const auto itemsize = static_cast<int64_t>(tensor.itemsize());
  const int64_t mask = itemsize - 1; // element sizes are powers of 2
  const int64_t all = slice.variable.nbytes();
  if (((slice.begin | all) & mask) == 0) {
    // Slices are rare, and a division is slow.
    const int64_t first = slice.begin == 0 ? 0 : slice.begin / itemsize;
    return {slice.variable, true, 0, all, tensor.storage_offset() + first};
  }
  const int64_t nbytes = slice.begin != 0 ? static_cast<int64_t>(storage.nbytes()) : all;
  return {slice.variable, false, slice.begin, nbytes & ~mask, tensor.storage_offset()};
}

namespace {

Value elements_of(const Region& region, at::ScalarType dtype) {
  if (region.is_whole) {
    return whole_value(region.variable, dtype);
  }
  return bitcast(
      strided_view(whole_value(region.variable, at::kByte), {region.nbytes}, {1}, region.begin),
      dtype);
}

// Reads a part of a buffer as its own parameter, so that the offset is a launch argument: one
// program serves all batches of a data set, and all elements that a loop reads. Returns no value if
// the whole buffer is read. Not for variables that are overwritten: their buffer is donated to the
// next value, which requires one parameter for the whole buffer.
Value partial_buffer(
    const DataNode& data, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
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

// A variable's content must be a whole buffer, or a call. Wraps part of a buffer in a view call.
Value as_content(Value value) {
  if (!value.node || !trace_node(value).is_data ||
      !static_cast<const DataNode&>(trace_node(value)).is_partial()) {
    return value;
  }
  const ValueType type = type_of(value);
  return strided_view(std::move(value), type.sizes, c10::contiguous_strides(type.sizes), 0);
}

// Whether the tensor omits dimensions of size 1 of the variable's value, as `x[:, i]` does.
bool drops_unit_dims(c10::IntArrayRef sizes, c10::IntArrayRef whole) {
  if (sizes.size() >= whole.size()) {
    return false;
  }
  size_t next = 0;
  for (const int64_t extent : whole) {
    if (next < sizes.size() && sizes[next] == extent) {
      ++next;
    } else if (extent != 1) {
      return false;
    }
  }
  return next == sizes.size();
}

// If several elements are written to the same memory (an expanded tensor), keeps the last of them.
Value last_written(Value value, c10::DimVector& sizes, c10::IntArrayRef strides) {
  const auto dense = c10::contiguous_strides(sizes);
  int64_t offset = 0;
  bool repeats = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] == 0 && sizes[i] > 1) {
      offset += (sizes[i] - 1) * dense[i];
      sizes[i] = 1;
      repeats = true;
    }
  }
  return repeats ? strided_view(std::move(value), sizes, dense, offset) : value;
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
  const Region region = region_of(tensor);
  Value base = elements_of(region, dtype);
  if (region.offset == 0 && tensor.is_contiguous() && type_of(base).sizes == tensor.sizes()) {
    return base;
  }
  if (trace_node(base).is_data && !region.variable.rewritten()) {
    const auto& data = static_cast<const DataNode&>(trace_node(base));
    if (Value partial = partial_buffer(data, tensor.sizes(), tensor.strides(), region.offset);
        partial.node) {
      return partial;
    }
  }
  return strided_view(std::move(base), tensor.sizes(), tensor.strides(), region.offset);
}

void write(const at::TensorImpl& tensor, Value value, PendingTrace& own) {
  const int64_t numel = tensor.numel();
  if (numel == 0) {
    return;
  }
  const Region region = region_of(tensor);
  Variable& variable = region.variable;
  const auto old = variable.value();
  // A write through an index remains an ftm.update even if it covers the whole variable (size 1),
  // so that all sizes share one program.
  const bool covers = region.is_whole && region.offset == 0 &&
                      numel * static_cast<int64_t>(tensor.itemsize()) == variable.nbytes() &&
                      !(old.node && drops_unit_dims(tensor.sizes(), type_of(old).sizes));
  if (covers && tensor.is_contiguous()) {
    variable.set_value(as_content(std::move(value)), own);
  } else if (covers && tensor.is_non_overlapping_and_dense()) {
    variable.set_value(as_content(in_memory_order(std::move(value), tensor.strides())), own);
  } else {
    Value base = elements_of(region, c10::typeMetaToScalarType(tensor.dtype()));
    c10::DimVector sizes(tensor.sizes());
    value = last_written(std::move(value), sizes, tensor.strides());
    Value changed = updated(base, value, sizes, tensor.strides(), region.offset);
    if (!region.is_whole) {
      changed = updated(
          whole_value(variable, at::kByte), bitcast(changed, at::kByte), {region.nbytes}, {1},
          region.begin);
    }
    variable.set_value(std::move(changed), own);
  }
}

at::Tensor make_tensor(
    const ValueType& type, c10::IntArrayRef strides, bool contiguous, Value value,
    PendingTrace& own) {
  const size_t itemsize = c10::elementSize(type.dtype);
  const auto dense_nbytes = type.numel() * static_cast<int64_t>(itemsize);
  const auto nbytes =
      contiguous
          ? dense_nbytes
          : static_cast<int64_t>(at::detail::computeStorageNbytes(type.sizes, strides, itemsize));
  const bool has_gaps = nbytes > dense_nbytes;
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
  }
  if (!value.node) {
    return tensor;
  }
  if (has_gaps) {
    write(*tensor.unsafeGetTensorImpl(), std::move(value), own);
  } else {
    value = contiguous ? std::move(value) : in_memory_order(std::move(value), strides);
    variable->set_value(as_content(std::move(value)), own);
  }
  return tensor;
}

} // namespace ftm
