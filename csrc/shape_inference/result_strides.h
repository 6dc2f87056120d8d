// Strides of results, where ATen's CPU kernels choose others than its meta kernels.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Corrects the strides of `results`, which come from the functional op's meta kernel, to the CPU
// kernel's. `called` and `functional` are the arguments of the user's op and of its functional
// variant. In-place ops, and out= ops that need no resize, are left unchanged. May run the CPU
// kernel on zeros.
void lay_out_as_eager(
    const Op& op, c10::ArrayRef<c10::IValue> called, c10::ArrayRef<c10::IValue> functional,
    std::vector<ResultType>& results);

} // namespace ftm
