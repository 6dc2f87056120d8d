// Strides of results where ATen's CPU kernels choose others than its meta kernels.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// Corrects the strides of `results`, which the meta kernel of the functional form gave. `called`:
// the call's arguments; `functional`: those of the functional form. An in-place op has no layout of
// its own, and an out= form has one where it resizes.
void lay_out_as_eager(
    const Op& op, c10::ArrayRef<c10::IValue> called, c10::ArrayRef<c10::IValue> functional,
    std::vector<ResultType>& results);

} // namespace ftm
