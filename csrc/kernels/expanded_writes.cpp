// Fills and writes at places that eager does to expanded tensors too, with a warning. An element
// has what was written to any of its places, or what was written last.
#include "kernels/expanded_writes.h"

#include "dispatch/record.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace ftm {
namespace {

bool is_expanded(const at::Tensor& self, int64_t dimension) {
  return self.stride(dimension) == 0 && self.size(dimension) > 1;
}

// A call's arguments, the written tensor first.
using Arguments = c10::ArrayRef<c10::IValue>;

at::Tensor no_place_of(const at::Tensor& self) {
  return at::zeros(self.sizes(), self.options().dtype(at::kBool));
}

void fill_elements(const at::Tensor& self, at::Tensor places, const c10::IValue& value) {
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (is_expanded(self, i)) {
      places = at::any(places, i, /*keepdim=*/true);
    }
  }
  at::Tensor target = each_once(self);
  value.isTensor() ? target.masked_fill_(places, value.toTensor())
                   : target.masked_fill_(places, value.toScalar());
}

void masked_fill(Arguments arguments) {
  const auto& self = arguments[0].toTensor();
  fill_elements(self, no_place_of(self).masked_fill_(arguments[1].toTensor(), true), arguments[2]);
}

void index_fill(Arguments arguments) {
  const auto& self = arguments[0].toTensor();
  at::assert_no_overlap(self, arguments[2].toTensor());
  fill_elements(
      self, no_place_of(self).index_fill_(arguments[1].toInt(), arguments[2].toTensor(), true),
      arguments[3]);
}

void index_put(Arguments arguments) {
  const auto& self = arguments[0].toTensor();
  const auto indices = arguments[1].toOptionalTensorList().vec();
  at::assert_no_overlap(self, arguments[2].toTensor());
  for (const auto& index : indices) {
    if (index.has_value()) {
      at::assert_no_overlap(self, *index);
    }
  }
  const at::Tensor target = each_once(self);
  const at::Tensor numbers =
      at::arange(target.numel(), self.options().dtype(at::kLong)).view(target.sizes());
  const at::Tensor places =
      at::index(numbers.expand(self.sizes()), arguments[1].toOptionalTensorList());
  at::Tensor elements = target.clone(at::MemoryFormat::Contiguous).view({-1});
  elements.index_put_(
      {places.reshape({-1})}, arguments[2].toTensor().expand(places.sizes()).reshape({-1}),
      arguments[3].toBool());
  target.copy_(elements.view(target.sizes()));
}

// Records the call, unless it writes to an expanded tensor.
class WriteKernel final : public c10::OperatorKernel {
 public:
  WriteKernel(
      const std::string& name, std::string shown, std::string with, void (*write)(Arguments))
      : record_("aten::" + name), shown_(std::move(shown)), with_(std::move(with)), write_(write) {}

  void operator()(
      const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    const Arguments arguments(stack->data() + stack->size() - count, count);
    const at::Tensor self = arguments[0].toTensor();
    if (at::has_internal_overlap(self) != at::MemOverlap::Yes) {
      record_(op, keys, stack);
      return;
    }
    TORCH_WARN(
        "Use of ", shown_,
        " on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing e.g. tensor",
        with_);
    write_(arguments);
    torch::jit::drop(*stack, count);
    stack->emplace_back(self);
  }

 private:
  RecordKernel record_;
  std::string shown_, with_;
  void (*write_)(Arguments);
};

torch::CppFunction on_expanded(
    const std::string& name, const std::string& shown, const std::string& with,
    void (*write)(Arguments)) {
  return torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<WriteKernel>(name, shown, with, write));
}

} // namespace

at::Tensor each_once(const at::Tensor& self) {
  c10::DimVector sizes(self.sizes());
  for (int64_t i = 0; i < self.dim(); ++i) {
    sizes[i] = is_expanded(self, i) ? 1 : sizes[i];
  }
  return c10::IntArrayRef(sizes) == self.sizes() ? self : self.as_strided(sizes, self.strides());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const std::string name : {"masked_fill_.Scalar", "masked_fill_.Tensor"}) {
    library.impl(name.c_str(), on_expanded(name, "masked_fill_", "[mask] = scalar", masked_fill));
  }
  for (const std::string name : {"index_fill_.int_Scalar", "index_fill_.int_Tensor"}) {
    library.impl(name.c_str(), on_expanded(name, "index_fill_", "[mask] = scalar", index_fill));
  }
  library.impl(
      "index_put_", on_expanded("index_put_", "index_put_", "[indices] = tensor", index_put));
}

} // namespace ftm
