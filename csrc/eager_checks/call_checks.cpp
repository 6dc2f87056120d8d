#include "eager_checks/call_checks.h"

#include "eager_checks/call_kinds.h"
#include "eager_checks/call_warnings.h"
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
#include <mutex>
#include <set>
#include <tuple>

namespace ftm {
namespace {

bool is_empty(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() == 0;
}

// Some meta kernels wrap a `dim` that is out of range.
bool has_bad_dim(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.traits->checks_dim || arguments.empty() || !arguments[0].isTensor() ||
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

// Most kernels support at most 64 dimensions.
bool has_many_dims(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 64;
}

// For an empty first operand nothing is computed, so no kernel would check the other operands and
// the dtypes later.
bool has_empty_input(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return !op.random && !arguments.empty() && is_empty(arguments[0]);
}

bool has_other_ranks(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < op.traits->ranks.size(); ++i) {
    if (arguments[i].toTensor().dim() != op.traits->ranks[i]) {
      return true;
    }
  }
  return false;
}

// Whether a result is converted to another dtype before it is written, which only some kernels do.
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

// Returns an end of a domain rule: an integer, or the value of the argument with this name; nullopt
// if the overload has no numeric argument of this name.
std::optional<double> number_at(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, const std::string& end) {
  char* parsed_end = nullptr;
  const double number = std::strtod(end.c_str(), &parsed_end);
  if (*parsed_end == '\0') {
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
  bool is_ascending = true;
  std::optional<double> previous;
  for (const auto& end : rule.ends) {
    const auto number = number_at(op, arguments, end);
    if (!number) {
      return false;
    }
    is_ascending = is_ascending && (!previous || *previous <= *number);
    previous = number;
  }
  return !is_ascending;
}

// Whether the op has no result for these values of its scalar arguments.
bool is_out_of_domain(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return std::any_of(
      op.traits->domain.begin(), op.traits->domain.end(),
      [&](const DomainRule& rule) { return is_outside(rule, op, arguments); });
}

// Whether eager may reject the call, which its CPU kernel is then called to find out. That is slow,
// so frequent calls must not be suspicious.
bool is_suspicious(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return is_any_call(op.traits->tried, op, arguments) || mixes_dtypes_of_gradients(op, arguments) ||
         has_bad_dim(op, arguments) ||
         std::any_of(arguments.begin(), arguments.end(), has_many_dims) ||
         has_empty_input(op, arguments) || has_other_ranks(op, arguments) ||
         is_out_of_domain(op, arguments);
}

bool fits(const at::Scalar& number, at::ScalarType dtype) {
  bool result = true;
  const auto check = [&](auto zero) {
    using Number = decltype(zero);
    result = number.isFloatingPoint()       ? !c10::overflows<Number, double>(number.toDouble())
             : number.type() == at::kUInt64 ? !c10::overflows<Number, uint64_t>(number.toUInt64())
                                            : !c10::overflows<Number, int64_t>(number.toLong());
  };
  AT_DISPATCH_V2(
      dtype, "number", AT_WRAP([&] { check(scalar_t()); }), at::kHalf, at::kBFloat16,
      AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES));
  return result;
}

} // namespace

bool mixes_dtypes_of_gradients(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.functional.operator_name().name.find("_backward") == std::string::npos ||
      arguments.empty() || !arguments[0].isTensor() || !has_mixed_dtypes(arguments)) {
    return false;
  }
  // Indices and masks may have other dtypes than the floating-point arguments.
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
  // Bool accepts any number. Complex tensors are filled on the CPU.
  return at::isIntegralType(dtype, /*includeBool=*/false) || dtype == at::kFloat ||
         dtype == at::kDouble || at::isReducedFloatingType(dtype);
}

void check_results(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> functional,
    const std::vector<ResultType>& results) {
  if (op.traits->checks_alpha) {
    at::native::alpha_check(
        results[0].type.dtype,
        argument_named(op.functional.schema(), functional, "alpha")->toScalar());
  }
  if ((op.traits->takes_no_bools && results[0].type.dtype == at::kBool) ||
      (!op.traits->converts_to_out && converts(op, arguments, results))) {
    throw_as_eager(op, arguments);
  }
}

namespace {

// A fast check that is true for most numbers.
bool obviously_fits(const c10::IValue& number, at::ScalarType dtype) {
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
        !obviously_fits(arguments[i], dtype) && !fits(arguments[i].toScalar(), dtype)) {
      throw_as_eager(op, arguments); // returns if eager computes in a wider dtype
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
        .fill_(value); // a single float16 becomes inf without an error
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
  warn_as_eager(op, arguments);
}

namespace {

constexpr int64_t kMostTrialElements = 1 << 16; // some milliseconds in the slowest kernels

thread_local bool integers_allowed = false;

bool has_only_integers(uint64_t dtypes) {
  for (int dtype = 0; dtype < static_cast<int>(at::ScalarType::NumOptions); ++dtype) {
    const bool is_in = (dtypes >> dtype & 1) != 0;
    if (is_in && !at::isIntegralType(static_cast<at::ScalarType>(dtype), /*includeBool=*/true)) {
      return false;
    }
  }
  return dtypes != 0;
}

// Whether a call computes something and is fast on the CPU.
bool is_good_trial(c10::ArrayRef<c10::IValue> arguments, const std::vector<ResultType>& results) {
  int64_t elements = 0;
  for (const auto& result : results) {
    elements += c10::multiply_integers(result.type.sizes); // more than of operands if it broadcasts
  }
  const auto add = [&](const at::Tensor& tensor) {
    elements += tensor.numel();
    return tensor.numel() != 0;
  };
  for (const auto& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined() && !add(argument.toTensor())) {
      return false;
    }
    if (argument.isTensorList()) {
      const auto tensors = argument.toTensorVector();
      if (!std::all_of(tensors.begin(), tensors.end(), add)) {
        return false;
      }
    }
  }
  return elements <= kMostTrialElements;
}

} // namespace

AllowIntegers::AllowIntegers() {
  integers_allowed = true;
}

AllowIntegers::~AllowIntegers() {
  integers_allowed = false;
}

void check_integer_dtypes(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, uint64_t operands,
    const std::vector<ResultType>& results) {
  static std::mutex mutex;
  static auto& supported =
      *new std::set<std::tuple<const Op*, uint64_t, uint64_t>>; // used by threads at exit
  uint64_t made = 0;
  for (const auto& result : results) {
    made |= uint64_t{1} << static_cast<int>(result.type.dtype);
  }
  const std::tuple key(&op, operands, made);
  if (integers_allowed || !has_only_integers(operands)) {
    return;
  }
  {
    const std::lock_guard lock(mutex);
    if (supported.contains(key)) {
      return;
    }
  }
  if (is_good_trial(arguments, results)) {
    throw_if_dtypes_unsupported(op, arguments);
    const std::lock_guard lock(mutex);
    supported.insert(key);
  }
}

} // namespace ftm
