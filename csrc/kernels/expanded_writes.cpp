// Fills and indexed writes to expanded tensors, which eager allows with a warning. An element gets
// the value that was written last to any of its positions.
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

at::Tensor empty_mask(const at::Tensor& self) {
  return at::zeros(self.sizes(), self.options().dtype(at::kBool));
}

// `mask` selects positions of the expanded tensor.
void fill_elements(const at::Tensor& self, at::Tensor mask, const c10::IValue& value) {
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (is_expanded(self, i)) {
      mask = at::any(mask, i, /*keepdim=*/true);
    }
  }
  at::Tensor target = without_expansion(self);
  value.isTensor() ? target.masked_fill_(mask, value.toTensor())
                   : target.masked_fill_(mask, value.toScalar());
}

void masked_fill(Arguments arguments) {
  const auto& self = arguments[0].toTensor();
  fill_elements(self, empty_mask(self).masked_fill_(arguments[1].toTensor(), true), arguments[2]);
}

void index_fill(Arguments arguments) {
  const auto& self = arguments[0].toTensor();
  at::assert_no_overlap(self, arguments[2].toTensor());
  fill_elements(
      self, empty_mask(self).index_fill_(arguments[1].toInt(), arguments[2].toTensor(), true),
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
  const at::Tensor target = without_expansion(self);
  const at::Tensor numbers =
      at::arange(target.numel(), self.options().dtype(at::kLong)).view(target.sizes());
  const at::Tensor indices_of_elements =
      at::index(numbers.expand(self.sizes()), arguments[1].toOptionalTensorList());
  at::Tensor elements = target.clone(at::MemoryFormat::Contiguous).view({-1});
  elements.index_put_(
      {indices_of_elements.reshape({-1})},
      arguments[2].toTensor().expand(indices_of_elements.sizes()).reshape({-1}),
      arguments[3].toBool());
  target.copy_(elements.view(target.sizes()));
}

// Records the call, except for a write to an expanded tensor.
class WriteKernel final : public c10::OperatorKernel {
 public:
  WriteKernel(
      const std::string& name, std::string shown_name, std::string example,
      void (*write)(Arguments))
      : record_("aten::" + name),
        shown_name_(std::move(shown_name)),
        example_(std::move(example)),
        write_(write) {}

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
        "Use of ", shown_name_,
        " on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing e.g. tensor",
        example_);
    write_(arguments);
    torch::jit::drop(*stack, count);
    stack->emplace_back(self);
  }

 private:
  RecordKernel record_;
  std::string shown_name_, example_; // for the warning
  void (*write_)(Arguments);
};

torch::CppFunction write_kernel(
    const std::string& name, const std::string& shown_name, const std::string& example,
    void (*write)(Arguments)) {
  return torch::CppFunction::makeFromBoxedFunctor(
      std::make_unique<WriteKernel>(name, shown_name, example, write));
}

} // namespace

at::Tensor without_expansion(const at::Tensor& self) {
  c10::DimVector sizes(self.sizes());
  for (int64_t i = 0; i < self.dim(); ++i) {
    sizes[i] = is_expanded(self, i) ? 1 : sizes[i];
  }
  return c10::IntArrayRef(sizes) == self.sizes() ? self : self.as_strided(sizes, self.strides());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const std::string name : {"masked_fill_.Scalar", "masked_fill_.Tensor"}) {
    library.impl(name.c_str(), write_kernel(name, "masked_fill_", "[mask] = scalar", masked_fill));
  }
  for (const std::string name : {"index_fill_.int_Scalar", "index_fill_.int_Tensor"}) {
    library.impl(name.c_str(), write_kernel(name, "index_fill_", "[mask] = scalar", index_fill));
  }
  library.impl(
      "index_put_", write_kernel("index_put_", "index_put_", "[indices] = tensor", index_put));
}

} // namespace ftm
