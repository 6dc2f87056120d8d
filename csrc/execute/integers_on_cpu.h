// Evaluates integer and boolean tensors on the CPU, if Python needs them to continue. Examples: the
// condition `if (mask == 1).all():` between the calls of a model, and the number of results of
// `torch.unique(tokens)`. Reading the elements from the device would cut the trace there. If they
// depend only on integers and booleans that are in memory, and on constants, the CPU computes them,
// nothing is launched, and recording continues. Callers count it; strict mode forbids it.
#pragma once

#include "tensor/storage_variable.h"

namespace ftm {

// Returns the tensor's elements, to be treated as read-only, if the CPU can evaluate them; else an
// undefined tensor. If 32 calls or more are pending, only values that depend on no result of a
// program qualify, except results that follow from values from the CPU. May wait for running
// programs. Throws their errors. Must not be called under the recorder's lock.
at::Tensor integers_on_cpu(const at::Tensor& tensor);

// Keeps the expression of a launched program's result if the CPU can evaluate it, so that later
// conditions may depend on it. `computed` is the buffer that will have the result. Called under the
// recorder's lock.
void keep_host_expression(const Value& result, const Value& computed);

} // namespace ftm
