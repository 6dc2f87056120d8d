// Boxed kernels for the library `quantized`. Its C++ signatures change between releases of PyTorch
// (a tensor by value or by reference), and a kernel whose signature differs from the CPU kernel's
// aborts the process. Boxed kernels have no C++ signature.
#pragma once

#include <torch/library.h>

namespace ftm {

// Calls an unboxed function with the arguments on the stack, and replaces them by its results.
template <auto kFunction>
void call_unboxed(
    const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  using Pointer =
      c10::CompileTimeFunctionPointer<std::remove_pointer_t<decltype(kFunction)>, kFunction>;
  using Functor = typename c10::impl::WrapFunctionIntoFunctor<Pointer>::type;
  Functor functor;
  c10::impl::make_boxed_from_unboxed_functor<Functor, false>::call(&functor, handle, keys, stack);
}

// Makes a boxed kernel of an unboxed function.
template <auto kFunction>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<&call_unboxed<kFunction>>();
}

} // namespace ftm
