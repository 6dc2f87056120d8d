// Copies: on the device (recorded), from the CPU (a new buffer), and to the CPU (which launches
// what is pending and waits).
#include "kernels/copy.h"

#include "ops/call_on_values.h"
#include "support/counters.h"
#include "support/event_log.h"
#include "support/python_location.h"
#include "support/metrics.h"
#include "dispatch/record.h"
#include "sync/cut_trace.h"
#include "sync/decisions_on_cpu.h"
#include "execute/integers_on_cpu.h"
#include "tensor/tensor_access.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/all.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cstring>

namespace ftm {
namespace {

// Returns the tensor's elements as `observed` does. `buffer` is the value of its variable; null if
// it was never written.
at::Tensor elements_in_region(
    const at::Tensor& self, const Region& region, const BufferPtr& buffer) {
  if (!buffer) {
    return at::zeros(self.sizes(), self.options().device(at::kCPU));
  }
  if (!region.is_whole) {
    const at::Tensor bytes =
        Buffer::as_cpu(buffer, at::kByte, {region.nbytes}, {1}, region.begin).clone();
    return bytes.view(self.scalar_type()).as_strided(self.sizes(), self.strides(), region.offset);
  }
  return Buffer::as_cpu(buffer, self.scalar_type(), self.sizes(), self.strides(), region.offset);
}

} // namespace

at::Tensor observed(const at::Tensor& self) {
  if (self.numel() == 0) {
    return at::empty_strided(self.sizes(), self.strides(), self.options().device(at::kCPU));
  }
  const Region region = region_of(*self.unsafeGetTensorImpl());
  return elements_in_region(self, region, observe(region.variable));
}

namespace {

// A copy in the event log, with the user's line.
class LoggedCopy {
 public:
  LoggedCopy(HostEventKind kind, const char* name, size_t bytes)
      : scope_(kind, name, static_cast<int64_t>(bytes)) {
    if (scope_.is_logged()) {
      const auto line = python_line(this_thread());
      scope_.set_line(line ? *line : "");
    }
  }

 private:
  LoggedScope scope_;
};

// Returns the tensor's elements with the lazy conjugation and negation of `target` instead of its
// own. (resolve_conj would copy, and so call this again.)
at::Tensor match_lazy_bits(at::Tensor source, const at::Tensor& target) {
  if (source.is_neg() != target.is_neg()) {
    source = at::neg(source.is_neg() ? source._neg_view() : source);
  } else if (source.is_neg()) {
    source = source._neg_view();
  }
  if (source.is_conj() != target.is_conj()) {
    source = at::conj_physical(source.is_conj() ? source.conj() : source);
  } else if (source.is_conj()) {
    source = source.conj();
  }
  return source;
}

void copy_on_device(const at::Tensor& self, const at::Tensor& source) {
  const RecorderLock lock =
      lock_to_read({self.unsafeGetTensorImpl(), source.unsafeGetTensorImpl()});
  const auto& target = *self.unsafeGetTensorImpl();
  Value value = converted(read(*source.unsafeGetTensorImpl()), self.scalar_type());
  write(target, broadcast(std::move(value), self.sizes()));
}

// Whether the elements are the same bytes in the same order on the host, as after most `.cpu()`.
bool have_same_layout(const at::Tensor& host, const at::Tensor& source) {
  return host.is_cpu() && host.layout() == at::kStrided && !host.is_quantized() &&
         !host._is_zerotensor() && host.scalar_type() == source.scalar_type() &&
         host.sizes() == source.sizes() && host.is_contiguous() && source.is_contiguous() &&
         host.is_conj() == source.is_conj() && host.is_neg() == source.is_neg();
}

void copy_to_host(const at::Tensor& self, const at::Tensor& source) {
  constexpr size_t kSmall = 1 << 16; // several threads copy a larger value
  const Region region = region_of(*source.unsafeGetTensorImpl());
  const BufferPtr buffer = observe(region.variable);
  TORCH_LAZY_TIMED("TransferFromDeviceTime");
  const LoggedCopy logged(HostEventKind::copy_to_host, "copy to the host", self.nbytes());
  if (buffer && region.is_whole && self.nbytes() <= kSmall && have_same_layout(self, source)) {
    // Without a tensor for the device's memory, which would take longer than the copy.
    const auto first = region.offset * static_cast<int64_t>(self.itemsize());
    std::memcpy(
        self.mutable_data_ptr(), static_cast<const char*>(buffer->data()) + first, self.nbytes());
  } else {
    at::Tensor elements = elements_in_region(source, region, buffer);
    elements._set_conj(source.is_conj());
    elements._set_neg(source.is_neg());
    self.copy_(elements);
  }
  static auto* bytes = new torch::lazy::Metric("InboundData", torch::lazy::MetricFnBytes);
  bytes->AddSample(static_cast<double>(self.nbytes()));
}

void copy_from_cpu(const at::Tensor& self, const at::Tensor& source) {
  // Convert and broadcast on the CPU: nothing is recorded, and the caller may change the source
  // immediately.
  const bool has_type =
      source.scalar_type() == self.scalar_type() && source.sizes() == self.sizes();
  const at::Tensor dense = has_type ? source : source.to(self.scalar_type()).expand(self.sizes());
  const ValueType type{self.scalar_type(), c10::DimVector(self.sizes())};
  const auto& target = *self.unsafeGetTensorImpl();
  const bool is_whole_storage = self.storage_offset() == 0 &&
                                static_cast<int64_t>(self.nbytes()) == variable_of(target).nbytes();
  if (!self.is_contiguous() && self.is_non_overlapping_and_dense() && is_whole_storage) {
    // Permute on the CPU, so that the buffer has the storage's memory order.
    at::Tensor permuted = at::empty_strided(self.sizes(), self.strides(), dense.options());
    permuted.copy_(dense);
    const at::Tensor flat = permuted.as_strided({permuted.numel()}, {1});
    Value value =
        data_value(Buffer::from_cpu(flat, self.device().index()), {type.dtype, {flat.numel()}});
    const RecorderLock lock(recorder_mutex());
    variable_of(target).set_value(std::move(value));
    return;
  }
  Value value = data_value(Buffer::from_cpu(dense, self.device().index()), type);
  const RecorderLock lock = lock_to_read({self.unsafeGetTensorImpl()});
  write(target, std::move(value));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool) {
  if (self.is_same(source)) {
    return self;
  }
  TORCH_CHECK(source.defined(), "source is undefined");
  if (self.sizes() != source.sizes()) {
    const auto expected =
        at::infer_size(self.sizes(), source.sizes()); // throws if they can't match
    TORCH_CHECK(
        self.sizes() == expected, "output with shape ", self.sizes(),
        " doesn't match the broadcast shape ", c10::IntArrayRef(expected));
  }
  if (self.is_meta() || self.numel() == 0) {
    return self;
  }
  if (source.is_complex() && !self.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  begin_recording();
  if (!self.is_privateuseone()) {
    copy_to_host(self, source);
  } else if (source.is_privateuseone()) {
    at::assert_no_internal_overlap(self);
    at::assert_no_partial_overlap(self, source);
    copy_on_device(self, match_lazy_bits(source, self));
  } else {
    TORCH_LAZY_TIMED("TransferToDeviceTime");
    const LoggedCopy logged(HostEventKind::copy_to_device, "copy to the device", self.nbytes());
    at::assert_no_internal_overlap(self);
    copy_from_cpu(self, match_lazy_bits(source.is_cpu() ? source : source.cpu(), self));
    static auto* bytes = new torch::lazy::Metric("OutboundData", torch::lazy::MetricFnBytes);
    bytes->AddSample(static_cast<double>(self.nbytes()));
  }
  return self;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  at::Tensor result = target;
  return copy_(result, source, non_blocking);
}

// Copies the output of an op that ran on the CPU back. If that op resized it, it has warned and
// chosen the strides.
at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.sizes() != source.sizes()) {
    const size_t extent =
        at::detail::computeStorageNbytes(source.sizes(), source.strides(), /*itemsize_bytes=*/1);
    target.resize_({static_cast<int64_t>(extent)});
    target.unsafeGetTensorImpl()->set_sizes_and_strides(source.sizes(), source.strides());
  }
  return copy_from(source, target, false);
}

// Returns a number that Python needs to continue, if the CPU computes it; else an undefined tensor.
at::Tensor number_on_cpu(const at::Tensor& number) {
  at::Tensor truth = number.scalar_type() == at::kBool ? integers_on_cpu(number) : at::Tensor();
  return truth.defined() ? truth : decided_on_cpu(number);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  if (const at::Tensor number = number_on_cpu(self); number.defined()) {
    static auto& decisions = counter("conditions_on_cpu");
    decisions.fetch_add(1);
    return at::_local_scalar_dense(number);
  }
  at::Tensor elements = observed(self);
  TORCH_LAZY_TIMED("TransferFromDeviceTime");
  const LoggedCopy logged(HostEventKind::copy_to_host, "read a number", self.nbytes());
  elements._set_conj(self.is_conj());
  elements._set_neg(self.is_neg());
  return at::_local_scalar_dense(elements.resolve_conj().resolve_neg());
}

// The device compares; only one element is read.
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(
      self.device() == other.device(),
      "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
      other.device());
  return self.sizes() == other.sizes() &&
         (self.numel() == 0 || at::all(at::eq(self, other)).item<bool>());
}

// Copies operands of ops that run on the CPU. They keep their strides, since gradient formulas
// depend on them (whether a factorization was of a matrix or of its transpose).
std::vector<at::Tensor> to_cpu(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) {
    const bool is_simple = !tensor.is_privateuseone() || tensor.is_non_overlapping_and_dense() ||
                           tensor.is_conj() || tensor.is_neg() || tensor.numel() == 0;
    at::Tensor source = is_simple ? tensor.cpu() : observed(tensor);
    if (!is_simple && source.strides() == tensor.strides()) {
      int64_t extent = 1;
      for (int64_t i = 0; i < tensor.dim(); ++i) {
        extent += (tensor.size(i) - 1) * tensor.stride(i);
      }
      // Some kernels write to an output in row-major order regardless of its strides, so allocate
      // all elements of an expanded one.
      const at::Tensor memory = at::empty({std::max(extent, tensor.numel())}, source.options());
      memory.narrow(0, 0, extent).copy_(source.as_strided({extent}, {1}));
      source = memory.as_strided(tensor.sizes(), tensor.strides(), 0);
    }
    result.push_back(std::move(source));
  }
  return result;
}

// A view of a copy of the whole storage, as in eager. (Values are immutable, so the copy shares the
// buffer until one of the two is written.)
at::Tensor lazy_clone(const at::Tensor& self) {
  const bool holds_elements = self.storage().nbytes() % self.itemsize() == 0;
  const at::Tensor all =
      at::empty({0}, holds_elements ? self.options() : self.options().dtype(at::kByte))
          .set_(self.storage())
          .clone();
  auto clone = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(all.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      self.dtype());
  auto* impl = clone.unsafeGetTensorImpl();
  impl->set_storage_offset(self.storage_offset());
  impl->set_sizes_and_strides(self.sizes(), self.strides());
  clone._set_conj(self.is_conj());
  clone._set_neg(self.is_neg());
  return clone;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("copy_", TORCH_FN(copy_));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_to_cpu", TORCH_FN(to_cpu));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_lazy_clone", TORCH_FN(lazy_clone));
  library.impl("equal", TORCH_FN(equal));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

} // namespace ftm
