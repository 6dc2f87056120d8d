// Tensors as windows into variables: reading and writing through sizes, strides and offset.
#pragma once

#include "graph/node.h"
#include "tensor/variable.h"

namespace ftm {

// All under the recorder's lock.

// The tensor's elements as a dense value of its own sizes.
Value read(const at::TensorImpl& tensor);
// Makes `value`, which has the tensor's sizes and dtype, the tensor's content.
void write(const at::TensorImpl& tensor, Value value);
// The variable's whole content as a value of this dtype (any shape); zeros if it was never written.
Value whole(Variable& variable, at::ScalarType dtype);
// `value` in the memory order of a dense tensor with these strides.
Value in_memory_order(Value value, c10::IntArrayRef strides);
// `value` converted to a dtype.
Value converted(Value value, at::ScalarType dtype);
// Zeros of this type.
Value zeros(ValueType type);
// `value` broadcast to sizes.
Value broadcast(Value value, c10::IntArrayRef sizes);
Value strided_view(Value base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
Value updated(Value base, Value value, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);

// A new tensor with this content; strides of a dense tensor.
at::Tensor make_tensor(const ValueType& type, c10::IntArrayRef strides, bool contiguous, Value value);

void forget_view_forms();

} // namespace ftm
