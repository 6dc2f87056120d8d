// Kernels that take their arguments by C++ types. A call of a boxed kernel (record.h) begins with a
// copy of each tensor on the interpreter's stack; where Python holds the only reference to a
// tensor, PyTorch takes the GIL for that, and again when the copy goes: a quarter of what recording
// `x + y` takes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

namespace ftm {

// Records the op's calls. None: no kernel is made for its types (typed_kernels.cpp names those that
// are).
std::optional<torch::CppFunction> typed_kernel(const c10::OperatorHandle& op);

} // namespace ftm
