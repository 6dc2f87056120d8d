// Calls tried on other tensors than the user's: on the meta device, where only geometry is, and on
// the CPU, with zeros.
#pragma once

#include "ops/op_info.h"

#include <ATen/core/stack.h>

#include <functional>

namespace ftm {

// A tensor on the meta device, with the tensor's geometry.
at::Tensor meta_like(const at::Tensor& tensor);
// Zeros on the CPU, with the tensor's geometry.
at::Tensor cpu_like(const at::Tensor& tensor);

using Replacement = std::function<at::Tensor(const at::Tensor&)>;
// The arguments with each tensor replaced, and each device; without generators.
torch::jit::Stack with_tensors_replaced(
    c10::ArrayRef<c10::IValue> arguments, const Replacement& replacement, c10::Device device);

// Many meta kernels are written in Python and complain in words of their own. A call that one of
// them refuses is tried on CPU zeros, so that the user reads what eager says; one that draws, on
// ones. Returns if eager takes the call.
void throw_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Throws what eager throws at tensors that share elements as these do. Each kernel of ATen has
// rules of its own for outputs that overlap inputs or themselves, so the CPU's is asked.
void check_aliases_as_eager(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Throws what eager throws at an op that fills a tensor with random numbers: the op is tried with
// one element.
void draw_one_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments);

// Runs an op on meta tensors; false if it has no meta kernel that takes the call. `arguments`: of
// the op as the user called it, for the error.
bool call_on_meta(
    const Op& op, const c10::OperatorHandle& spec, torch::jit::Stack& stack,
    c10::ArrayRef<c10::IValue> arguments);

// An op without a meta kernel: its CPU kernel tells what the results look like. False if it refuses
// zeros.
bool call_on_zeros(
    const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack& stack);

// What the CPU kernel returns for zeros with the arguments' geometry, and out= tensors without
// elements; nothing if it refuses them. An op that draws random numbers gets ones, and leaves the
// CPU's generator as it is. Warnings are dropped.
std::optional<torch::jit::Stack> try_on_cpu(const Op& op, c10::ArrayRef<c10::IValue> arguments);

} // namespace ftm
