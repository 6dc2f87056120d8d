// Products of sparse and dense matrices, by gathering rows and adding them up.
#include "layouts/sparse_fallback.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace ftm {
namespace {

// A sparse matrix as COO: row and column indices, and values.
struct CooMatrix { at::Tensor rows, columns, values; };

CooMatrix to_coo(const at::Tensor& matrix) {
  if (matrix.is_sparse()) {
    TORCH_CHECK(
        matrix.sparse_dim() == 2, "mm: Expected a sparse matrix, got ", matrix.sparse_dim(),
        " sparse dimensions");
    const at::Tensor indices = matrix._indices();
    return {indices.select(0, 0), indices.select(0, 1), matrix._values()};
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      matrix.layout() == at::kSparseCsr, "device ftm multiplies sparse COO and CSR matrices, not ",
      matrix.layout());
  const at::Tensor numbers = at::arange(matrix._nnz(), matrix.crow_indices().options());
  const at::Tensor rows =
      at::searchsorted(matrix.crow_indices(), numbers, /*out_int32=*/false, /*right=*/true).sub(1);
  return {rows, matrix.col_indices(), matrix.values()};
}

bool is_sparse(const at::Tensor& tensor) {
  return tensor.layout() != at::kStrided;
}

// Each row of the product is a sum of rows of `dense`, selected by the elements' columns and scaled
// by their values.
at::Tensor product(const CooMatrix& sparse, int64_t rows, const at::Tensor& dense) {
  const at::Tensor terms = dense.index_select(0, sparse.columns).mul(sparse.values.unsqueeze(1));
  return at::zeros({rows, dense.size(1)}, dense.options()).index_add(0, sparse.rows, terms);
}

at::Tensor mm(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(
      self.dim() == 2 && other.dim() == 2 && self.size(1) == other.size(0),
      "mm: Argument #3 (dense): Expected dim 0 size ", self.size(1), ", got ", other.size(0));
  TORCH_CHECK(
      self.scalar_type() == other.scalar_type(),
      "expected m1 and m2 to have the same dtype, but got: ", self.scalar_type(),
      " != ", other.scalar_type());
  if (is_sparse(self) && is_sparse(other)) {
    return on_the_cpu("aten::mm", self, other);
  }
  if (is_sparse(self)) {
    return product(to_coo(self), self.size(0), other);
  }
  CooMatrix transposed = to_coo(other);
  std::swap(transposed.rows, transposed.columns);
  return product(transposed, other.size(1), self.t()).t();
}

at::Tensor addmm(
    const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
    const at::Scalar& alpha) {
  if (is_sparse(self)) {
    return on_the_cpu("aten::addmm", self, mat1, mat2, beta, alpha);
  }
  at::Tensor result = ftm::mm(mat1, mat2);
  result = alpha.equal(1) ? result : result.mul(alpha);
  return beta.equal(0) ? result : result.add(self, beta);
}

at::Tensor mv(const at::Tensor& self, const at::Tensor& vector) {
  return ftm::mm(self, vector.unsqueeze(1)).squeeze(1);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library) {
  library.impl("mm", TORCH_FN(ftm::mm));
  library.impl("addmm", TORCH_FN(ftm::addmm));
  library.impl("mv", TORCH_FN(ftm::mv));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
  library.impl("mm", TORCH_FN(ftm::mm));
  library.impl("addmm", TORCH_FN(ftm::addmm));
  library.impl("mv", TORCH_FN(ftm::mv));
}

} // namespace ftm
