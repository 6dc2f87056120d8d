#include "call_checks.h"

#include "random.h"
#include "stand_ins.h"

#include <algorithm>
#include <unordered_set>

namespace ftm {
namespace {

bool has_mixed_dtypes(c10::ArrayRef<c10::IValue> arguments) {
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

// Products and convolutions want operands of one dtype; their meta kernels don't look.
bool wants_one_dtype(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::mm",     "aten::bmm",   "aten::addmm", "aten::baddbmm", "aten::mv",         "aten::addmv",
      "aten::addbmm", "aten::dot",   "aten::vdot",  "aten::linear",  "aten::convolution"};
  return names.count(name) != 0;
}

// Searches for extreme and middle elements, and orders: the size of `dim` and empty operands are looked at by kernels.
bool searches(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::aminmax", "aten::max",    "aten::median", "aten::min",
      "aten::mode",    "aten::nanmedian", "aten::sort",   "aten::argsort"};
  return names.count(name) != 0;
}

bool is_empty(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() == 0;
}

// Only the argument `dim` of such an op is an integer.
bool has_bad_dim(c10::ArrayRef<c10::IValue> arguments) {
  const int64_t dims = std::max<int64_t>(arguments[0].toTensor().dim(), 1);
  return std::any_of(arguments.begin(), arguments.end(), [dims](const c10::IValue& value) {
    return value.isInt() && (value.toInt() < -dims || value.toInt() >= dims);
  });
}

bool is_bool(const c10::IValue& value) {
  return value.isBool() ||
      (value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == at::kBool);
}

bool has_negatives(const c10::IValue& value) {
  if (!value.isIntList()) {
    return false;
  }
  const auto numbers = value.toIntVector();
  return std::any_of(numbers.begin(), numbers.end(), [](int64_t number) { return number < 0; });
}

// The call may be one that eager refuses, which its kernel is asked for. That costs a run on the CPU, so it is not done
// for the calls that programs are made of.
bool is_suspicious(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (wants_one_dtype(op.name) && has_mixed_dtypes(arguments)) {
    return true;
  }
  const auto& name = op.functional.operator_name().name;
  if (searches(name)) {
    return !op.written.empty() || is_empty(arguments[0]) || has_bad_dim(arguments);
  }
  if (name == "aten::all" || name == "aten::any" || name == "aten::complex") {
    return !op.written.empty(); // the dtype of out=
  }
  if (name == "aten::sub" || name == "aten::rsub") {
    return std::any_of(arguments.begin(), arguments.end(), is_bool);
  }
  return name == "aten::convolution" && std::any_of(arguments.begin(), arguments.end(), has_negatives);
}

} // namespace

void check_call(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.random) {
    check_draw(op.handle, arguments);
  }
  if (op.lax_meta || is_suspicious(op, arguments)) {
    throw_as_eager(op, arguments);
  }
  if (op.name == "aten::pow.Tensor_Scalar" && arguments[1].isInt() && arguments[1].toInt() < 0) {
    TORCH_CHECK(
        !at::isIntegralType(arguments[0].toTensor().scalar_type(), /*includeBool=*/true),
        "Integers to negative integer powers are not allowed.");
  }
}

} // namespace ftm
