// Forms of aten calls whose results are known.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// From the functional form's arguments; see Form for `list_lengths`.
CallSpecPtr make_form(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType> results,
    std::vector<int32_t> list_lengths);

// 0-dim CPU tensor made from a Python number: a runtime scalar.
inline bool is_wrapped_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.device().is_cpu();
}
// That, or a Python number itself, if it is complex.
bool is_complex_number(const c10::IValue& value);

} // namespace ftm
