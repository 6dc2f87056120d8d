// Indexing by tensors (x[i, j], x[i, j] = v): what eager's kernels say of shapes and dtypes, said
// where the call is recorded.
#pragma once

#include "ops/op_info.h"

namespace ftm {

// `op` takes indices on the CPU (op.cpu_indices): whether it takes values to write there, as
// index_put does, or reads, as index.
bool writes_at_indices(const Op& op);

// That a mask which is index `front` of a list has the shape of what it masks.
void check_mask(const at::Tensor& self, int64_t front, const at::Tensor& mask);

// The same of the whole call of such an op.
void check_indexing(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
