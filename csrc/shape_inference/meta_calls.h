// Calls of ops on placeholder tensors: on the meta device, which has no elements, or on the CPU
// with zeros. Used to infer results and to raise eager's errors. Not under the recorder's lock,
// since kernels may run Python.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>

#include <functional>

namespace ftm {

// Returns a meta tensor with the tensor's sizes, strides and dtype.
at::Tensor meta_like(const at::Tensor& tensor);
// Returns a CPU tensor of zeros with the tensor's sizes, strides and dtype.
at::Tensor cpu_like(const at::Tensor& tensor);

using Replacement = std::function<at::Tensor(const at::Tensor&)>;
// Returns the arguments with tensors replaced, device arguments set to `device`, and generators
// removed.
torch::jit::Stack with_tensors_replaced(
    c10::ArrayRef<c10::IValue> arguments, const Replacement& replacement, c10::Device device);

// Calls the op on CPU zeros (ones if it draws), to throw eager's error for a call that a meta
// kernel rejects: many meta kernels are written in Python and have other messages. Returns if eager
// accepts the call.
void throw_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Throws eager's error if the op's CPU kernel does not support the arguments' dtypes. Calls the
// kernel like `throw_as_eager`, but ignores its other errors, which may be about the zeros.
void throw_if_dtypes_unsupported(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Throws eager's error for arguments that share memory. Each ATen kernel has its own rules for
// outputs that overlap inputs or themselves, so this calls the CPU kernel on copies with the same
// overlaps.
void check_aliases_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Throws eager's error for an op that fills a tensor with random numbers, by calling it on one
// element.
void draw_one_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Calls an op on meta tensors; `stack` has the arguments, and then the results. Returns false if it
// has no meta kernel for the call. `arguments` are those of the user's call, for eager's error.
bool call_on_meta(
    const Op& op, const c10::OperatorHandle& callee, torch::jit::Stack& stack,
    c10::ArrayRef<c10::IValue> arguments);

// For an op without a meta kernel: calls its CPU kernel on zeros to infer the results, which are
// put on `stack`. Returns false if the kernel rejects zeros.
bool call_on_zeros(
    const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack& stack);

// Returns the CPU kernel's results for zeros (ones if it draws) with the arguments' geometry, and
// empty out= tensors; nullopt if the kernel throws. Leaves the CPU's generator unchanged and drops
// warnings.
std::optional<torch::jit::Stack> try_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
