// Sparse tensors. Their indices and values are dense device tensors, so ATen's code constructs and
// takes them apart. Arithmetic operates on the values. Coalescing needs the number of distinct
// indices, which is determined on the CPU.
#include "eager_checks/mask_counts.h"
#include "layouts/sparse_fallback.h"

#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_to_dense_native.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/index.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace ftm {
namespace {

at::Tensor with_values(const at::Tensor& self, const at::Tensor& values) {
  return at::_sparse_coo_tensor_unsafe(
      self._indices(), values, self.sizes(), values.options().layout(at::kSparse),
      self.is_coalesced());
}

bool is_number(const at::Tensor& tensor) {
  return !tensor.is_sparse() && tensor.dim() == 0;
}

// --- coalescing ---

// Returns the row-major linear index of each element in the sparse dimensions.
at::Tensor linear_indices(const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t i = 0; i < indices.size(0); ++i) {
    flat = flat.mul(sizes[i]).add(indices.select(0, i));
  }
  return flat;
}

at::Tensor coalesce(const at::Tensor& self) {
  TORCH_CHECK(!self.is_coalesced(), "coalesce: the tensor is coalesced");
  const at::Tensor host_indices = elements_on_cpu(
      self._indices(), "aten::_coalesce",
      "Make the tensor of places that are sorted and differ, with is_coalesced=True, or coalesce "
      "it on the CPU.");
  const auto [unique, inverse, counts] = at::_unique2(
      linear_indices(host_indices, self.sizes()), /*sorted=*/true, /*return_inverse=*/true);
  const int64_t count = unique.numel();
  at::Tensor indices = at::empty({self.sparse_dim(), count}, host_indices.options());
  at::Tensor rest = unique;
  for (int64_t i = self.sparse_dim(); i-- > 0;) {
    indices.select(0, i).copy_(at::remainder(rest, std::max<int64_t>(self.size(i), 1)));
    rest = at::floor_divide(rest, std::max<int64_t>(self.size(i), 1));
  }
  c10::DimVector sizes(self._values().sizes());
  sizes[0] = count;
  const at::Tensor values = at::zeros(sizes, self._values().options())
                                .index_add(0, inverse.to(self.device()), self._values());
  return at::_sparse_coo_tensor_unsafe(
      indices.to(self.device()), values, self.sizes(), values.options().layout(at::kSparse),
      /*is_coalesced=*/true);
}

// --- arithmetic ---

// Returns dense + alpha * sparse.
at::Tensor add_to_dense(
    const at::Tensor& dense, const at::Tensor& sparse, const at::Scalar& alpha) {
  const auto dtype = at::result_type(dense, sparse);
  const int64_t sparse_dim = sparse.sparse_dim();
  at::Tensor values = sparse._values().to(dtype);
  values = alpha.equal(1) ? values : values.mul(alpha);
  if (sparse_dim == 0) {
    return dense.to(dtype).add(values.sum(0));
  }
  c10::DimVector rows(values.sizes());
  rows[0] = 1;
  for (int64_t i = 0; i < sparse_dim; ++i) {
    rows[0] *= sparse.size(i);
  }
  return dense.to(dtype)
      .reshape(rows)
      .index_add(0, linear_indices(sparse._indices(), sparse.sizes()), values)
      .view(dense.sizes());
}

at::Tensor add_sparse(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  if (!self.is_sparse()) {
    return add_to_dense(self, other, alpha);
  }
  const auto dtype = at::result_type(self, other);
  const at::Tensor addend = alpha.equal(1) ? other._values() : other._values().mul(alpha);
  const at::Tensor sum = at::_sparse_coo_tensor_unsafe(
      at::cat({self._indices(), other._indices()}, 1),
      at::cat({self._values().to(dtype), addend.to(dtype)}, 0), self.sizes(),
      self.options().dtype(dtype), /*is_coalesced=*/false);
  return self.is_coalesced() && other.is_coalesced() ? sum.coalesce() : sum;
}

// Whether the device adds these. The CPU handles rare cases, and raises eager's errors.
bool can_add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const bool has_bools =
      self.scalar_type() == at::kBool || other.scalar_type() == at::kBool || alpha.isBoolean();
  const bool truncates = at::isIntegralType(at::result_type(self, other), /*includeBool=*/true) &&
                         !alpha.isIntegral(true);
  const bool same_shape = self.sizes() == other.sizes();
  const bool same_layout = !self.is_sparse() || self.sparse_dim() == other.sparse_dim();
  return !has_bools && !truncates && other.is_sparse() && same_shape && same_layout;
}

// Whether the argument of an in-place op can store a result of this dtype.
bool can_store(const at::Tensor& self, at::ScalarType result) {
  return at::canCast(result, self.scalar_type());
}

at::Tensor add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return can_add(self, other, alpha) ? add_sparse(self, other, alpha)
                                     : on_the_cpu("aten::add.Tensor", self, other, alpha);
}

at::Tensor& add_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  if (can_add(self, other, alpha) && can_store(self, at::result_type(self, other))) {
    return self.copy_(add_sparse(self, other, alpha));
  }
  on_the_cpu("aten::add_.Tensor", self, other, alpha);
  return self;
}

at::Tensor sub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return can_add(self, other, alpha) ? add_sparse(self, other, -alpha)
                                     : on_the_cpu("aten::sub.Tensor", self, other, alpha);
}

at::Tensor& sub_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  if (can_add(self, other, alpha) && can_store(self, at::result_type(self, other))) {
    return self.copy_(add_sparse(self, other, -alpha));
  }
  on_the_cpu("aten::sub_.Tensor", self, other, alpha);
  return self;
}

at::Tensor mul(const at::Tensor& self, const at::Tensor& other) {
  if (is_number(other)) {
    return with_values(self, self._values().mul(other));
  }
  if (is_number(self)) {
    return with_values(other, other._values().mul(self));
  }
  return on_the_cpu("aten::mul.Tensor", self, other);
}

at::Tensor& mul_(at::Tensor& self, const at::Tensor& other) {
  if (self.is_sparse() && is_number(other) && can_store(self, at::result_type(self, other))) {
    return self.copy_(ftm::mul(self, other));
  }
  on_the_cpu("aten::mul_.Tensor", self, other);
  return self;
}

at::Tensor div(const at::Tensor& self, const at::Tensor& other) {
  return is_number(other) ? with_values(self, self._values().div(other))
                          : on_the_cpu("aten::div.Tensor", self, other);
}

at::Tensor& div_(at::Tensor& self, const at::Tensor& other) {
  if (is_number(other) && at::isFloatingType(self.scalar_type()) &&
      can_store(self, at::result_type(self, other))) {
    return self.copy_(ftm::div(self, other));
  }
  on_the_cpu("aten::div_.Tensor", self, other);
  return self;
}

at::Tensor neg(const at::Tensor& self) {
  return with_values(self, self._values().neg());
}

// Returns the elements of a dense tensor at the indices of a sparse one.
at::Tensor sparse_mask(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(
      self.sizes() == mask.sizes(),
      "sparse_mask(): operands have incompatible sizes; self has size ", self.sizes(),
      " but mask has size ", mask.sizes());
  if (self.is_sparse()) {
    return on_the_cpu("aten::sparse_mask", self, mask);
  }
  const at::Tensor indices = mask._indices();
  c10::List<std::optional<at::Tensor>> index;
  for (int64_t i = 0; i < indices.size(0); ++i) {
    index.push_back(indices.select(0, i));
  }
  const at::Tensor values = at::index(self, index);
  return at::_sparse_coo_tensor_unsafe(
      indices, values, self.sizes(), values.options().layout(at::kSparse), mask.is_coalesced());
}

} // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library) {
  library.impl(
      "_sparse_coo_tensor_with_dims_and_tensors",
      TORCH_FN(at::native::new_with_dims_and_tensor_sparse_symint));
  library.impl("_sparse_coo_tensor_with_dims", TORCH_FN(at::native::new_with_dims_sparse));
  library.impl("empty.memory_format", TORCH_FN(at::native::empty_sparse_symint));
  library.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse));
  library.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse));
  library.impl("_nnz", TORCH_FN(at::native::_nnz_sparse));
  library.impl("is_coalesced", TORCH_FN(at::native::is_coalesced_sparse));
  library.impl("_coalesced_", TORCH_FN(at::native::_coalesced_sparse_));
  library.impl("_indices", TORCH_FN(at::native::_indices_sparse));
  library.impl("_values", TORCH_FN(at::native::_values_sparse));
  library.impl("indices", TORCH_FN(at::native::indices_sparse));
  library.impl("values", TORCH_FN(at::native::values_sparse));
  library.impl("clone", TORCH_FN(at::native::clone_sparse));
  library.impl("copy_", TORCH_FN(at::native::copy_sparse_wrapper_));
  library.impl("copy_sparse_to_sparse_", TORCH_FN(at::native::copy_sparse_));
  library.impl("sparse_resize_", TORCH_FN(at::native::sparse_resize_));
  library.impl("sparse_resize_and_clear_", TORCH_FN(at::native::sparse_resize_and_clear_));
  library.impl("resize_as_sparse_", TORCH_FN(at::native::resize_as_sparse_));
  library.impl("zero_", TORCH_FN(at::native::zero_sparse_));
  library.impl("_to_dense", TORCH_FN(at::native::sparse_to_dense));
  library.impl("_coalesce", TORCH_FN(coalesce));
  library.impl("add.Tensor", TORCH_FN(ftm::add));
  library.impl("add_.Tensor", TORCH_FN(add_));
  library.impl("sub.Tensor", TORCH_FN(ftm::sub));
  library.impl("sub_.Tensor", TORCH_FN(sub_));
  library.impl("mul.Tensor", TORCH_FN(ftm::mul));
  library.impl("mul_.Tensor", TORCH_FN(mul_));
  library.impl("div.Tensor", TORCH_FN(ftm::div));
  library.impl("div_.Tensor", TORCH_FN(div_));
  library.impl("neg", TORCH_FN(ftm::neg));
  library.impl("sparse_mask", TORCH_FN(sparse_mask));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(at::native::empty_sparse_compressed_symint));
  library.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse_csr));
  library.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse_csr));
  library.impl("_nnz", TORCH_FN(at::native::_nnz_sparse_csr));
  library.impl("crow_indices", TORCH_FN(at::native::crow_indices_sparse_csr));
  library.impl("col_indices", TORCH_FN(at::native::col_indices_sparse_csr));
  library.impl("ccol_indices", TORCH_FN(at::native::ccol_indices_sparse_csr));
  library.impl("row_indices", TORCH_FN(at::native::row_indices_sparse_csr));
  library.impl("values", TORCH_FN(at::native::values_sparse_csr));
  library.impl("clone", TORCH_FN(at::native::clone_sparse_compressed));
  library.impl("copy_", TORCH_FN(at::native::copy_sparse_compressed_));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl(
      "_to_sparse.sparse_dim",
      static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(at::native::dense_to_sparse));
  library.impl(
      "_to_sparse", static_cast<at::Tensor (*)(
                        const at::Tensor&, std::optional<at::Layout>, at::OptionalIntArrayRef,
                        std::optional<int64_t>)>(at::native::dense_to_sparse));
}

} // namespace ftm
