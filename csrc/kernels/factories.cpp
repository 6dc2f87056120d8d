// Factories, fills, resizes, and changes of storage: kernels that compute nothing, or whose result
// does not depend on the content of the written tensor.
#include "eager_checks/call_checks.h"
#include "kernels/expanded_writes.h"
#include "ops/call_on_values.h"
#include "ops/compiled_ops.h"
#include "support/counters.h"
#include "support/device_index.h"
#include "support/strict_mode.h"
#include "dispatch/record.h"
#include "sync/cut_trace.h"
#include "tensor/storage.h"
#include "tensor/tensor_access.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/new_empty_strided_native.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

namespace ftm {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Returns the index of the device on which a factory makes its tensor.
c10::DeviceIndex placement(
    std::optional<at::Layout> layout, std::optional<at::Device> device,
    std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(at::kStrided) == at::kStrided, "device ftm has strided tensors only, not ",
      layout.value_or(at::kStrided));
  TORCH_CHECK(!pin_memory.value_or(false), "only dense CPU tensors can be pinned");
  return device ? device->index() : c10::DeviceIndex{-1};
}

// torch.use_deterministic_algorithms fills uninitialized memory with NaN, or the largest integer.
bool fills_uninitialized_memory() {
  const auto& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor fill_if_deterministic(at::Tensor tensor) {
  if (C10_UNLIKELY(fills_uninitialized_memory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

at::Tensor empty(
    at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory,
    std::optional<at::MemoryFormat> memory_format) {
  const DeviceScope scope(placement(layout, device, pin_memory));
  return fill_if_deterministic(
      at::detail::empty_generic(
          sizes, c10::GetAllocator(c10::kPrivateUse1), kKeys,
          dtype.value_or(c10::get_default_dtype_as_scalartype()), memory_format));
}

at::Tensor empty_strided(
    at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout, std::optional<at::Device> device,
    std::optional<bool> pin_memory) {
  const DeviceScope scope(placement(layout, device, pin_memory));
  return fill_if_deterministic(
      at::detail::empty_strided_generic(
          sizes, strides, c10::GetAllocator(c10::kPrivateUse1), kKeys,
          dtype.value_or(c10::get_default_dtype_as_scalartype())));
}

// Whether programs can fill with this value and dtype; otherwise the CPU fills.
bool is_compiled_fill(const at::Scalar& value, at::ScalarType dtype) {
  static Op& op = op_named("aten::full");
  return !value.isComplex() && value.type() != at::kUInt64 &&
         is_compiled(op.name, uint64_t{1} << static_cast<int>(dtype));
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  begin_recording();
  if (self.numel() == 0) {
    return self;
  }
  const auto dtype = self.scalar_type();
  check_fill(value, self);
  static Op& op = op_named("aten::full");
  const at::Tensor target = without_expansion(self);
  const at::IntArrayRef sizes = target.sizes();
  const c10::IValue none;
  const RecorderLock lock = lock_to_read({target.unsafeGetTensorImpl()});
  const ValueType type{dtype, c10::DimVector(sizes)};
  Value filled;
  if (!is_compiled_fill(value, dtype)) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !is_strict(), "a fill of ", dtype, " with ", value,
        " is not compiled for device ftm, and FTM_STRICT forbids to ", "compute it on the CPU");
    static auto& fills = counter("cpu_fills");
    fills.fetch_add(1);
    auto buffer = Buffer::from_cpu(
        at::empty(sizes, self.options().device(at::kCPU)).fill_(value), self.device().index());
    filled = data_value(std::move(buffer), type);
  } else {
    // A bool is a runtime scalar as other numbers, not part of the program: the flag that ends a
    // loop differs in the last iteration.
    const at::Scalar number = value.isBoolean() ? at::Scalar(int64_t{value.toBool()}) : value;
    filled = call_with_scalar(op, {sizes, none, dtype, none, none, none}, 1, number, type);
  }
  write(*target.unsafeGetTensorImpl(), std::move(filled));
  return self;
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(
      value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
      value.dim(), " dimensions.");
  if (!value.is_privateuseone()) {
    return fill_scalar(self, value.item());
  }
  // Eager reads the value before it writes, so clone an alias.
  return self.copy_(value.is_alias_of(self) ? value.clone() : value);
}

at::Tensor& zero_tensor(at::Tensor& self) {
  if (!is_compiled_fill(0, self.scalar_type())) {
    return fill_scalar(self, 0);
  }
  begin_recording();
  if (self.numel() != 0) {
    const at::Tensor target = without_expansion(self);
    const RecorderLock lock = lock_to_read({target.unsafeGetTensorImpl()});
    write(
        *target.unsafeGetTensorImpl(), zeros({self.scalar_type(), c10::DimVector(target.sizes())}));
  }
  return self;
}

// Grows the storage if the tensor's sizes, strides and offset exceed it.
void grow_storage(const at::Tensor& self) {
  if (self.numel() == 0) {
    return;
  }
  const size_t needed = at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.itemsize(), self.storage_offset());
  if (needed > self.storage().nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), needed);
  }
}

const at::Tensor& resize_(
    const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto old_nbytes = static_cast<int64_t>(self.storage().nbytes());
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    grow_storage(self);
  }
  if (memory_format) {
    TORCH_CHECK(
        *memory_format != at::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  if (C10_UNLIKELY(fills_uninitialized_memory())) {
    at::native::fill_resize_deterministic_(self, old_nbytes);
  }
  return self;
}

at::Tensor& set_storage(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
    at::IntArrayRef strides) {
  at::native::checkSetStorage<int64_t>(self, std::move(source), offset, sizes, strides);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (strides.data() != nullptr) {
    impl->set_sizes_and_strides(sizes, strides);
  } else if (self.sizes() != sizes) { // as in eager, equal sizes keep their strides
    impl->set_sizes_contiguous(sizes);
  }
  grow_storage(self);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const auto length = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {length}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) {
    return self;
  }
  return set_storage(
      self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  const DeviceScope scope(self.device().index());
  return set_storage(self, make_storage(0), 0, {0}, {});
}

// Autograd's placeholder for a zero gradient.
at::Tensor efficient_zeros(
    at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory) {
  at::Tensor result = empty(sizes, dtype, layout, device, pin_memory, std::nullopt);
  return zero_tensor(result);
}

// Fills an `out` tensor of a factory of vectors. It keeps its shape if it has the right number of
// elements.
at::Tensor& fill_row(int64_t steps, Op& op, torch::jit::Stack numbers, at::Tensor& out) {
  if (steps >= 0 && out.numel() != steps) {
    out.resize_({steps}); // the CPU kernels do not warn here
  }
  at::Tensor row = out.dim() == 1 ? out : at::empty({out.numel()}, out.options());
  numbers.emplace_back(row);
  record(op, &numbers);
  return row.is_same(out) ? out : out.copy_(row.view(out.sizes()));
}

// The number of elements is inferred when the call is recorded.
at::Tensor& arange_out(
    const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  static Op& op = op_named("aten::arange.start_out");
  at::Tensor row = at::empty({0}, out.options());
  torch::jit::Stack numbers{start, end, step, row};
  record(op, &numbers);
  if (out.numel() != row.numel()) {
    if (out.numel() > 0) {
      TORCH_WARN(
          "The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
          " which does not match the computed number of elements ", row.numel(),
          ". Note that this may occur as a result of rounding error. The out tensor will be "
          "resized to a tensor of shape (",
          row.numel(), ",).");
    }
    out.resize_(row.sizes());
  }
  return out.copy_(row.view(out.sizes()));
}

at::Tensor& linspace_out(
    const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  static Op& op = op_named("aten::linspace.out");
  return fill_row(steps, op, {start, end, steps}, out);
}

at::Tensor& logspace_out(
    const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  static Op& op = op_named("aten::logspace.out");
  return fill_row(steps, op, {start, end, steps, base}, out);
}

// Memory is freed when its value is no longer referenced, so there is nothing to do for streams.
void record_stream(at::Tensor&, at::Stream) {}

// Whether `tensor.data = other` and module.to() may keep the tensor object and swap its content: as
// between the CPU and any device with dense tensors.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& other) {
  return self.layout() == at::kStrided && other.layout() == at::kStrided && !self.is_meta() &&
         !other.is_meta();
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("new_empty_strided", TORCH_FN(at::native::new_empty_strided_symint));
  library.impl("fill_.Scalar", TORCH_FN(fill_scalar));
  library.impl("fill_.Tensor", TORCH_FN(fill_tensor));
  library.impl("zero_", TORCH_FN(zero_tensor));
  library.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
  library.impl("record_stream", TORCH_FN(record_stream));
  library.impl("resize_", TORCH_FN(resize_));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  library.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  library.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  library.impl("set_", TORCH_FN(set_nothing));
  library.impl("arange.start_out", TORCH_FN(arange_out));
  library.impl("linspace.out", TORCH_FN(linspace_out));
  library.impl("logspace.out", TORCH_FN(logspace_out));
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

} // namespace ftm
