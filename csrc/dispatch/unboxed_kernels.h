// Unboxed kernels, which take their arguments as C++ types. For a boxed kernel (dispatch/record.h),
// the dispatcher copies each tensor to the interpreter's stack. If Python holds the only reference
// to a tensor, PyTorch acquires the GIL for that copy, and again to destroy it: a quarter of the
// time to record `x + y`.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

namespace ftm {

// Returns a kernel that records the op's calls; nullopt if there is none for its signature
// (unboxed_kernels.cpp lists the signatures).
std::optional<torch::CppFunction> unboxed_kernel(const c10::OperatorHandle& op);

} // namespace ftm
