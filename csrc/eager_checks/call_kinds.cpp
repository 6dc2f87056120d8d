#include "eager_checks/call_kinds.h"

#include "ops/make_call_spec.h"

#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_set>

namespace ftm {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

bool is_bool(const c10::IValue& value) {
  return value.isBool() || (value.isTensor() && value.toTensor().defined() &&
                            value.toTensor().scalar_type() == at::kBool);
}

bool has_negatives(const c10::IValue& value) {
  if (!value.isIntList()) {
    return false;
  }
  const auto numbers = value.toIntVector();
  return std::any_of(numbers.begin(), numbers.end(), [](int64_t number) { return number < 0; });
}

bool has_no_dims(Arguments arguments) {
  return arguments.size() > 1 && arguments[1].isIntList() && arguments[1].toIntVector().empty();
}

bool is_real_number(const c10::IValue& value) {
  return value.isDouble() || (is_real(value) && is_wrapped_number(value.toTensor()));
}

bool has_mixed_reals(Arguments arguments) {
  std::vector<c10::IValue> reals;
  std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(reals), is_real);
  return has_mixed_dtypes(reals);
}

bool has_negative_exponent(const Op& op, Arguments arguments) {
  const auto* exponent = argument_named(op.handle.schema(), arguments, "exponent");
  return exponent != nullptr && exponent->isInt() && exponent->toInt() < 0 &&
         is_integral(arguments[0]);
}

bool transposes_integers(const Op& op, Arguments arguments) {
  const auto* transposed = argument_named(op.handle.schema(), arguments, "transposed");
  return transposed != nullptr && transposed->toBool() && !is_real(arguments[0]);
}

} // namespace

bool is_real(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point();
}

bool has_mixed_dtypes(Arguments arguments) {
  std::optional<at::ScalarType> first;
  for (const auto& argument : arguments) {
    if (!argument.isTensor() || !argument.toTensor().defined()) {
      continue;
    }
    const auto dtype = argument.toTensor().scalar_type();
    if (first.value_or(dtype) != dtype) {
      return true;
    }
    first = dtype;
  }
  return false;
}

const c10::IValue* argument_named(
    const c10::FunctionSchema& schema, Arguments arguments, const std::string& name) {
  const auto index = schema.argumentIndexWithName(name);
  return index ? &arguments[*index] : nullptr;
}

bool is_call(CallKind kind, const Op& op, Arguments arguments) {
  switch (kind) {
    case CallKind::always: return true;
    case CallKind::out: return !op.written.empty();
    case CallKind::mixed: return has_mixed_dtypes(arguments);
    case CallKind::mixed_reals: return has_mixed_reals(arguments);
    case CallKind::integers: return is_integral(arguments[0]);
    case CallKind::bools: return std::any_of(arguments.begin(), arguments.end(), is_bool);
    case CallKind::no_dims: return has_no_dims(arguments);
    case CallKind::negatives: return std::any_of(arguments.begin(), arguments.end(), has_negatives);
    case CallKind::negative_exponent: return has_negative_exponent(op, arguments);
    case CallKind::transposed_integers: return transposes_integers(op, arguments);
    case CallKind::halves: return at::isReducedFloatingType(arguments[0].toTensor().scalar_type());
    case CallKind::one_sample: return arguments[0].toTensor().dim() < 2;
  }
  return false;
}

bool is_integral(const c10::IValue& value) {
  return value.isTensor() &&
         at::isIntegralType(value.toTensor().scalar_type(), /*includeBool=*/true);
}

bool compares_in_default_dtype(const Op& op, Arguments arguments) {
  static const std::unordered_set<std::string> comparisons = {
      "aten::eq", "aten::ne",   "aten::lt",           "aten::le",       "aten::gt",
      "aten::ge", "aten::isin", "aten::searchsorted", "aten::bucketize"};
  if (c10::get_default_dtype_as_scalartype() == at::kFloat || arguments.size() < 2 ||
      !comparisons.contains(op.name.substr(0, op.name.find('.')))) {
    return false;
  }
  const auto& [a, b] = std::tie(arguments[0], arguments[1]);
  return (is_integral(a) && is_real_number(b)) || (is_real_number(a) && is_integral(b));
}

bool is_any_call(const std::vector<CallKind>& kinds, const Op& op, Arguments arguments) {
  return std::any_of(
      kinds.begin(), kinds.end(), [&](CallKind kind) { return is_call(kind, op, arguments); });
}

} // namespace ftm
