// What ops return, said by functions in C++.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace ftm {

// The function that says what an op returns, from tensors on the meta device; null for ops that
// have none in C++.
//
// The dispatcher's Meta key leads to Python for most of these ops, which takes 50 to 3,000 times as
// long, and its first call imports torch._dynamo.
const c10::KernelFunction* shape_function(const c10::OperatorHandle& op);

// Whether the op is structured: the CPU's kernel lays its results out by the same function.
bool is_structured(const c10::OperatorHandle& op);

} // namespace ftm
