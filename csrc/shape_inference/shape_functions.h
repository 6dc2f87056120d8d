// Shape functions in C++: they infer an op's result types from meta tensors.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace ftm {

// Returns an op's shape function, which may be called with meta tensors instead of the dispatcher;
// null if it has none in C++. It throws as the op's meta kernel.
//
// For most of these ops, the dispatcher's Meta key leads to a Python function, which takes 50 to
// 3000 times as long, and whose first call imports torch._dynamo.
const c10::KernelFunction* shape_function(const c10::OperatorHandle& op);

// Whether the op is structured: its CPU kernel uses the same function for the strides of its
// results.
bool is_structured(const c10::OperatorHandle& op);

} // namespace ftm
