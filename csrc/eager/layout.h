// Strides of results where ATen's CPU kernels choose others than its meta kernels.
#pragma once

#include "ops/op.h"

namespace ftm {

// `arguments`: of the functional form; `results`: as the meta kernel gave them.
void lay_out_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments, std::vector<ResultType>& results);

} // namespace ftm
