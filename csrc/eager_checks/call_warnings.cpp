#include "eager_checks/call_warnings.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <set>

namespace ftm {
namespace {

std::string_view base_name(const Op& op) {
  return op.functional.operator_name().name;
}

const c10::IValue* argument_named(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, const char* name) {
  const auto index = op.handle.schema().argumentIndexWithName(name);
  return index ? &arguments[*index] : nullptr;
}

// How many elements each element of the reduction's result is computed from.
int64_t reduced_elements(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, const at::Tensor& self) {
  const c10::IValue* dims = argument_named(op, arguments, "dim");
  if (dims == nullptr || !dims->isIntList() || dims->toIntVector().empty()) {
    return self.numel();
  }
  int64_t count = 1;
  for (const int64_t dim : dims->toIntVector()) {
    count *= self.dim() == 0 ? 1 : self.size(dim);
  }
  return count;
}

void warn_of_degrees_of_freedom(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const c10::IValue* correction = argument_named(op, arguments, "correction");
  const double subtracted =
      correction == nullptr || correction->isNone() ? 1 : correction->toScalar().toDouble();
  if (static_cast<double>(reduced_elements(op, arguments, self)) <= subtracted) {
    TORCH_WARN(
        base_name(op).substr(sizeof("aten::") - 1),
        "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
        "factor (input numel divided by output numel).");
  }
}

} // namespace

void warn_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto name = base_name(op);
  if (name == "aten::std" || name == "aten::var" || name == "aten::std_mean" ||
      name == "aten::var_mean") {
    warn_of_degrees_of_freedom(op, arguments);
  } else if (name == "aten::index_reduce" && !op.written.empty()) { // the functional one warns
    TORCH_WARN_ONCE("index_reduce() is in beta and the API may change at any time.");
  } else if (name == "aten::triangular_solve") {
    TORCH_WARN_ONCE(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular",
        "and will be removed in a future PyTorch release.\n",
        "torch.linalg.solve_triangular has its arguments reversed and does not return a copy of "
        "one of the inputs.\n",
        "X = torch.triangular_solve(B, A).solution\n", "should be replaced with\n",
        "X = torch.linalg.solve_triangular(A, B).");
  }
}

bool resizes_silently(const Op& op) {
  static const auto& names =
      *new std::set<std::string_view>{"aten::eye", "aten::multinomial", "aten::randperm"};
  return names.count(base_name(op)) != 0;
}

} // namespace ftm
