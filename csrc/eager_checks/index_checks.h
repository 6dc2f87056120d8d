// Checks of indexing by tensors (x[i, j], x[i, j] = v): eager's errors about shapes and dtypes,
// raised when the call is recorded.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// For an op with `cpu_indices`: whether it writes values (index_put), rather than reads (index).
bool writes_at_indices(const Op& op);

// Throws eager's error if the shape of the mask differs from that of the dimensions that it masks,
// which begin at `front`.
void check_mask(const at::Tensor& self, int64_t front, const at::Tensor& mask);

// Throws eager's errors about the whole call of an op with `cpu_indices`.
void check_indexing(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
