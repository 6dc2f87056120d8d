// Linear systems, inverses and determinants from recorded factorizations. ATen's kernels call
// LAPACK, so each device needs its own.
#include "dispatch/record.h"

#include <ATen/TensorOperators.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_solve_ex.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/lu_unpack.h>
#include <torch/library.h>

namespace ftm {
namespace {

using at::Tensor;

// Reads `info`, which launches what is pending, if the caller requests errors.
void check_info(const Tensor& info, const Tensor& matrices, bool check_errors, const char* name) {
  if (check_errors) {
    at::_linalg_check_errors(info, name, /*is_matrix=*/matrices.dim() == 2);
  }
}

std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& self, bool upper, bool check_errors) {
  static Op& op = op_named("aten::linalg_cholesky_ex");
  torch::jit::Stack stack{self, upper, false};
  record(op, &stack);
  const Tensor factor = stack[0].toTensor(), info = stack[1].toTensor();
  check_info(info, self, check_errors, "linalg.cholesky_ex");
  return {factor, info};
}

std::tuple<Tensor, Tensor, Tensor> lu_factor_ex(const Tensor& self, bool pivot, bool check_errors) {
  static Op& op = op_named("aten::linalg_lu_factor_ex");
  torch::jit::Stack stack{self, pivot, false};
  record(op, &stack);
  const Tensor factors = stack[0].toTensor(), pivots = stack[1].toTensor(),
               info = stack[2].toTensor();
  check_info(info, self, check_errors, "torch.linalg.lu_factor_ex");
  return {factors, pivots, info};
}

std::tuple<Tensor, Tensor, Tensor> lu(const Tensor& self, bool pivot) {
  const auto [factors, pivots, info] = at::linalg_lu_factor_ex(self, pivot);
  return at::lu_unpack(factors, pivots, /*unpack_data=*/true, /*unpack_pivots=*/pivot);
}

// Gradients of determinants expect factors of the transpose for contiguous real matrices, which
// LAPACK's column-major kernels compute without a copy.
bool factorizes_transpose(const Tensor& matrices) {
  return matrices.is_contiguous() && !matrices.is_complex();
}

std::tuple<Tensor, Tensor, Tensor> factorize(const Tensor& matrices) {
  return at::linalg_lu_factor_ex(factorizes_transpose(matrices) ? matrices.mT() : matrices);
}

bool is_vector(const Tensor& matrices, const Tensor& right) {
  return right.dim() == 1 || (matrices.dim() - 1 == right.dim() &&
                              right.sizes() == matrices.sizes().slice(0, right.dim()));
}

// Lays out solutions for vectors [..., rows] as the CPU does: the last two dimensions are swapped
// in memory, as if a batch of vectors were one column-major matrix.
Tensor column_major(const Tensor& vectors) {
  return vectors.dim() < 2 ? vectors : vectors.mT().clone(at::MemoryFormat::Contiguous).mT();
}

std::tuple<Tensor, Tensor, Tensor, Tensor> solve_ex(
    const Tensor& self, const Tensor& right, bool left, bool check_errors) {
  at::native::checkFloatingOrComplex(self, "linalg.solve");
  TORCH_CHECK(
      self.scalar_type() == right.scalar_type(),
      "linalg.solve: Expected A and B to have the same dtype, but found A of type ",
      self.scalar_type(), " and B of type ", right.scalar_type(), " instead");
  at::native::squareCheckInputs(self, "linalg.solve");
  const bool vector = is_vector(self, right);
  TORCH_CHECK(
      left || !vector,
      "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False");
  const auto [factors, pivots, info] = at::linalg_lu_factor_ex(self);
  const auto solved =
      at::linalg_lu_solve(factors, pivots, vector ? right.unsqueeze(-1) : right, left);
  check_info(info, self, check_errors, "torch.linalg.solve_ex");
  return {vector ? column_major(solved.squeeze(-1)) : solved, factors, pivots, info};
}

std::tuple<Tensor, Tensor> inv_ex(const Tensor& self, bool check_errors) {
  at::native::squareCheckInputs(self, "linalg.inv");
  at::native::checkFloatingOrComplex(self, "linalg.inv", /*allow_low_precision_dtypes=*/false);
  const auto unit = at::eye(self.size(-1), self.options()).expand(self.sizes());
  const auto [inverse, factors, pivots, info] = at::_linalg_solve_ex(self, unit);
  check_info(info, self, check_errors, "linalg.inv_ex");
  return {inverse, info};
}

// Returns the sign of each permutation: 1 or -1.
Tensor sign_of(const Tensor& pivots, at::ScalarType dtype) {
  const auto identity = at::arange(1, pivots.size(-1) + 1, pivots.options());
  const auto is_odd = pivots.ne(identity).sum(-1).remainder(2);
  return (1 - 2 * is_odd).to(dtype);
}

std::tuple<Tensor, Tensor, Tensor> det(const Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.det");
  at::native::checkFloatingOrComplex(self, "linalg.det");
  const auto [factors, pivots, info] = factorize(self);
  const auto determinant =
      sign_of(pivots, self.scalar_type()) * factors.diagonal(0, -2, -1).prod(-1);
  return {determinant, factors, pivots};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> slogdet(const Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.slogdet");
  at::native::checkFloatingOrComplex(self, "linalg.slogdet", /*allow_low_precision_dtypes=*/false);
  const auto [factors, pivots, info] = factorize(self);

  const auto diagonal = factors.diagonal(0, -2, -1);
  const auto sign = diagonal.sgn().prod(-1) * sign_of(pivots, self.scalar_type());
  return {sign, diagonal.abs().log().sum(-1), factors, pivots};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("linalg_cholesky_ex", TORCH_FN(cholesky_ex));
  library.impl("linalg_lu_factor_ex", TORCH_FN(lu_factor_ex));
  library.impl("linalg_lu", TORCH_FN(lu));
  library.impl("_linalg_solve_ex", TORCH_FN(solve_ex));
  library.impl("linalg_inv_ex", TORCH_FN(inv_ex));
  library.impl("_linalg_det", TORCH_FN(det));
  library.impl("_linalg_slogdet", TORCH_FN(slogdet));
}

} // namespace ftm
