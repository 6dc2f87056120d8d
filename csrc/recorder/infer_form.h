// From a call to its form: result shapes, dtypes, strides and errors come from ATen's meta kernels.
#pragma once

#include "ops/op.h"

#include <ATen/core/stack.h>

namespace ftm {

// `arguments`: the call as it is on the stack. Throws what the eager op would throw.
FormPtr infer_form(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// A form from arguments, operands and known results; see render_call for `arguments` of a form.
FormPtr make_form(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType> results,
    std::vector<int32_t> list_lengths);

// 0-dim CPU tensor made from a Python number: a runtime scalar.
inline bool is_wrapped_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.device().is_cpu();
}

} // namespace ftm
