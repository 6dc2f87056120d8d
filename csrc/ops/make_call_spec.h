// Makes specs of aten calls whose result types were inferred.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Makes a spec from the functional op's arguments. Tensor arguments and runtime scalars become
// operands, all others attributes. `list_lengths`: see CallSpec.
CallSpecPtr make_call_spec(
    const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType> results,
    std::vector<int32_t> list_lengths);

// Whether the tensor is a Python number that was wrapped as a 0-dim CPU tensor. It becomes a
// runtime scalar.
inline bool is_wrapped_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.device().is_cpu();
}
// Whether the value is a complex Python number, wrapped or not.
bool is_complex_number(const c10::IValue& value);

} // namespace ftm
