#include "distributed/reductions.h"

#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>

namespace ftm {
namespace {

using Op = c10d::ReduceOp;

// Whether gloo reduces elements of a type: floats of 16 bits and more, and integers except those of
// 16 bits and unsigned ones of more than 8 (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp).
bool has_gloo(at::ScalarType dtype) {
  const auto bytes = c10::elementSize(dtype);
  if (at::isFloatingType(dtype)) {
    return bytes > 1;
  }
  const bool is_integer = at::isIntegralType(dtype, /*includeBool=*/false);
  return is_integer && bytes != 2 && (bytes == 1 || at::isSignedType(dtype));
}

double factor_of(const Op& op) {
  const auto* supplement = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "ReduceOp.PREMUL_SUM needs a factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>()
                                             : supplement->double_factor;
}

void accumulate(Op::RedOpType op, at::Tensor& result, const at::Tensor& part) {
  switch (op) {
    case Op::SUM: at::add_out(result, result, part); return;
    case Op::PRODUCT: at::mul_out(result, result, part); return;
    case Op::MIN: at::minimum_out(result, result, part); return;
    case Op::MAX: at::maximum_out(result, result, part); return;
    case Op::BAND: at::bitwise_and_out(result, result, part); return;
    case Op::BOR: at::bitwise_or_out(result, result, part); return;
    case Op::BXOR: at::bitwise_xor_out(result, result, part); return;
    default: TORCH_CHECK_VALUE(false, "there is no such reduction");
  }
}

} // namespace

Reduction::Reduction(const Op& op, at::ScalarType dtype, int ranks)
    : op_(op.op_), is_carried_(has_gloo(dtype)), ranks_(ranks) {
  const bool is_float = at::isFloatingType(dtype) || at::isComplexType(dtype);
  const bool is_bitwise = op_ == Op::BAND || op_ == Op::BOR || op_ == Op::BXOR;
  TORCH_CHECK_VALUE(
      !(is_float && is_bitwise), "bitwise reductions are for integers, not for ", dtype);
  if (op_ == Op::AVG) {
    averages_ = true;
    op_ = Op::SUM;
  } else if (op_ == Op::PREMUL_SUM) {
    factor_ = factor_of(op);
    op_ = Op::SUM;
  }
}

std::string Reduction::attribute() const {
  if (scales()) {
    return "";
  }
  switch (op_) {
    case Op::SUM: return averages_ ? "avg" : "add";
    case Op::PRODUCT: return "mul";
    case Op::MIN: return "min";
    case Op::MAX: return "max";
    default: return "";
  }
}

void Reduction::prepare(at::Tensor& elements) const {
  if (scales()) {
    elements.mul_(factor_);
  }
}

void Reduction::complete(at::Tensor& result) const {
  if (averages_) {
    at::isIntegralType(result.scalar_type(), /*includeBool=*/true) ? result.div_(ranks_, "trunc")
                                                                   : result.div_(ranks_);
  }
}

void Reduction::reduce(const at::Tensor& parts, at::Tensor& result) const {
  result.copy_(parts[0].view(result.sizes()));
  for (int64_t rank = 1; rank < parts.size(0); ++rank) {
    accumulate(op_, result, parts[rank].view(result.sizes()));
  }
  complete(result);
}

} // namespace ftm
