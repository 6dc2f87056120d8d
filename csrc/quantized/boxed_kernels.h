// Kernels for the library `quantized`. Its C++ signatures differ from one release of PyTorch to the
// next (a tensor by value or by reference), and a kernel of another signature than the CPU's ends
// the process: these are boxed.
#pragma once

#include <torch/library.h>

namespace ftm {

template <auto kFunction>
void call_unboxed(
    const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  using Pointer =
      c10::CompileTimeFunctionPointer<std::remove_pointer_t<decltype(kFunction)>, kFunction>;
  using Functor = typename c10::impl::WrapFunctionIntoFunctor<Pointer>::type;
  Functor functor;
  c10::impl::make_boxed_from_unboxed_functor<Functor, false>::call(&functor, handle, keys, stack);
}

template <auto kFunction>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<&call_unboxed<kFunction>>();
}

} // namespace ftm
