#include "eager_checks/call_checks.h"

#include "eager_checks/call_kinds.h"
#include "eager_checks/index_checks.h"
#include "shape_inference/meta_calls.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/ops/empty.h>
#include <c10/util/overflows.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace ftm {
namespace {

bool is_empty(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() == 0;
}

// Some meta kernels wrap a `dim` around however far it is off.
bool has_bad_dim(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.annotations->checks_dim || arguments.empty() || !arguments[0].isTensor() ||
      !arguments[0].toTensor().defined()) {
    return false;
  }
  const int64_t dims = std::max<int64_t>(arguments[0].toTensor().dim(), 1);
  const auto& declared = op.handle.schema().arguments();
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (declared[i].name() == "dim" && arguments[i].isInt() &&
        (arguments[i].toInt() < -dims || arguments[i].toInt() >= dims)) {
      return true;
    }
  }
  return false;
}

// Most kernels take no more.
bool has_many_dims(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 64;
}

// Nothing will be computed, so no kernel would ever see what is wrong with the other operands or
// with the dtypes.
bool is_of_nothing(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return !op.random && !arguments.empty() && is_empty(arguments[0]);
}

bool has_other_ranks(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < op.annotations->ranks.size(); ++i) {
    if (arguments[i].toTensor().dim() != op.annotations->ranks[i]) {
      return true;
    }
  }
  return false;
}

// What is computed is converted before it is written, which only some kernels do.
bool converts(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, const std::vector<ResultType>& results) {
  for (size_t i = 0; i < op.written.size(); ++i) {
    const auto dtype = results[i].type.dtype;
    if (dtype != at::ScalarType::Undefined &&
        arguments[op.written[i]].toTensor().scalar_type() != dtype) {
      return true;
    }
  }
  return false;
}

// An end of a domain: an integer, or an argument's name. None where the overload has no number of
// that name.
std::optional<double> number_at(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, const std::string& end) {
  char* behind = nullptr;
  const double number = std::strtod(end.c_str(), &behind);
  if (*behind == '\0') {
    return number;
  }
  const auto* argument = argument_named(op.handle.schema(), arguments, end);
  return argument != nullptr && argument->isScalar()
             ? std::optional(argument->toScalar().toDouble())
             : std::nullopt;
}

bool is_outside(const DomainRule& rule, const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto* where = argument_named(op.handle.schema(), arguments, rule.where);
  if (where != nullptr && where->isBool() && !where->toBool()) {
    return false;
  }
  bool rises = true;
  std::optional<double> before;
  for (const auto& end : rule.ends) {
    const auto number = number_at(op, arguments, end);
    if (!number) {
      return false;
    }
    rises = rises && (!before || *before <= *number);
    before = number;
  }
  return !rises;
}

// Whether the op has no result for the values of its scalars.
bool is_out_of_domain(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return std::any_of(
      op.annotations->domain.begin(), op.annotations->domain.end(),
      [&](const DomainRule& rule) { return is_outside(rule, op, arguments); });
}

// The call may be one that eager refuses, which its kernel is asked for. That costs a run on the
// CPU, so it is not done for the calls that programs are made of.
bool is_suspicious(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return is_any_call(op.annotations->tried, op, arguments) ||
         mixes_dtypes_of_gradients(op, arguments) || has_bad_dim(op, arguments) ||
         std::any_of(arguments.begin(), arguments.end(), has_many_dims) ||
         is_of_nothing(op, arguments) || has_other_ranks(op, arguments) ||
         is_out_of_domain(op, arguments);
}

bool fits(const at::Scalar& number, at::ScalarType dtype) {
  bool fitting = true;
  const auto look = [&](auto zero) {
    using Number = decltype(zero);
    fitting = number.isFloatingPoint()       ? !c10::overflows<Number, double>(number.toDouble())
              : number.type() == at::kUInt64 ? !c10::overflows<Number, uint64_t>(number.toUInt64())
                                             : !c10::overflows<Number, int64_t>(number.toLong());
  };
  AT_DISPATCH_V2(
      dtype, "number", AT_WRAP([&] { look(scalar_t()); }), at::kHalf, at::kBFloat16,
      AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES));
  return fitting;
}

} // namespace

bool mixes_dtypes_of_gradients(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.functional.operator_name().name.find("_backward") == std::string::npos ||
      arguments.empty() || !arguments[0].isTensor() || !has_mixed_dtypes(arguments)) {
    return false;
  }
  // Beside real numbers there may be indices and masks.
  std::optional<at::ScalarType> first;
  for (const auto& argument : arguments) {
    if (is_real(argument)) {
      const auto dtype = argument.toTensor().scalar_type();
      if (first.value_or(dtype) != dtype) {
        return true;
      }
      first = dtype;
    }
  }
  return first && !is_real(arguments[0]);
}

bool may_overflow(at::ScalarType dtype) {
  // Bool takes any number; complex numbers are filled in by the CPU.
  return at::isIntegralType(dtype, /*includeBool=*/false) || dtype == at::kFloat ||
         dtype == at::kDouble || at::isReducedFloatingType(dtype);
}

void check_results(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> own,
    const std::vector<ResultType>& results) {
  if (op.annotations->checks_alpha) {
    at::native::alpha_check(
        results[0].type.dtype, argument_named(op.functional.schema(), own, "alpha")->toScalar());
  }
  if ((op.annotations->takes_no_bools && results[0].type.dtype == at::kBool) ||
      (!op.annotations->converts_to_out && converts(op, arguments, results))) {
    throw_as_eager(op, arguments);
  }
}

namespace {

// Of most numbers that is seen at once.
bool surely_fits(const c10::IValue& number, at::ScalarType dtype) {
  return dtype == at::kDouble ||
         (dtype == at::kFloat &&
          (number.isInt() || std::abs(number.toDouble()) <= std::numeric_limits<float>::max()));
}

} // namespace

void check_numbers(const Op& op, c10::ArrayRef<c10::IValue> arguments, at::ScalarType dtype) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto kind = op.arguments[i].kind;
    const bool number = kind == ArgumentKind::scalar || kind == ArgumentKind::scalar_constant;
    if (number && (arguments[i].isInt() || arguments[i].isDouble()) &&
        !surely_fits(arguments[i], dtype) && !fits(arguments[i].toScalar(), dtype)) {
      throw_as_eager(op, arguments); // which may compute in a wider one
    }
  }
}

void check_domain(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (is_out_of_domain(op, arguments)) {
    throw_as_eager(op, arguments);
  }
}

void check_fill(const at::Scalar& value, const at::Tensor& self) {
  const auto dtype = self.scalar_type();
  if (may_overflow(dtype) && !value.isComplex() && !fits(value, dtype)) {
    at::empty({std::min<int64_t>(self.numel(), 2)}, at::TensorOptions().dtype(dtype))
        .fill_(value); // one half becomes inf
  }
}

void check_call(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.random && op.handle.schema().name().back() == '_') {
    draw_one_on_cpu(op, arguments);
  }
  if (op.cpu_indices) {
    check_indexing(op, arguments);
  }
  if (is_suspicious(op, arguments)) {
    throw_as_eager(op, arguments);
  }
}

} // namespace ftm
