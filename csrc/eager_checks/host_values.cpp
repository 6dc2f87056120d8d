#include "eager_checks/host_values.h"

#include "eager_checks/host_indices.h"
#include "shape_inference/meta_calls.h"
#include "ops/make_call_spec.h"

#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/result_type.h>

namespace ftm {
namespace {

bool divides_integers(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto is_integer = [](const c10::IValue& value) {
    return value.isTensor()
               ? at::isIntegralType(value.toTensor().scalar_type(), /*includeBool=*/true)
               : value.isInt() || value.isBool();
  };
  const bool rounds_quotient = op.traits->refuses == Refusal::zero_divisors ||
                               (arguments.size() > 2 && arguments[2].isString());
  return rounds_quotient && is_integer(arguments[0]) && is_integer(arguments[1]);
}

// Whether a number is zero in an integer type, as 256 in uint8.
bool is_zero_in(at::ScalarType dtype, const at::Scalar& number) {
  const size_t unused_bits = 64 - 8 * c10::elementSize(dtype);
  return static_cast<uint64_t>(number.toLong()) << unused_bits == 0;
}

bool has_zero(const c10::IValue& dividend, const c10::IValue& divisor) {
  const bool is_number = !divisor.isTensor() || is_wrapped_number(divisor.toTensor());
  if (!is_number) {
    const at::Tensor elements = elements_from_cpu(divisor.toTensor());
    return elements.defined() && !at::all(elements).item<bool>();
  }
  const at::Scalar number = divisor.isTensor() ? divisor.toTensor().item() : divisor.toScalar();
  return is_zero_in(
      dividend.isTensor() ? at::result_type(dividend.toTensor(), number) : number.type(), number);
}

bool is_invalid_distribution(const at::Tensor& weights) {
  const at::Tensor elements = elements_from_cpu(weights);
  if (!elements.defined() || !elements.is_floating_point()) {
    return false;
  }
  return !at::all(at::isfinite(elements)).item<bool>() ||
         at::any(at::lt(elements, 0)).item<bool>() ||
         !at::all(at::any(at::gt(elements, 0), -1)).item<bool>();
}

} // namespace

void check_host_values(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const bool is_refused =
      op.traits->refuses == Refusal::no_distribution
          ? is_invalid_distribution(arguments[0].toTensor())
          : divides_integers(op, arguments) && has_zero(arguments[0], arguments[1]);
  if (is_refused) {
    auto stack = with_tensors_replaced(arguments, elements_or_zeros, c10::kCPU);
    op.handle.callBoxed(stack);
  }
}

} // namespace ftm
