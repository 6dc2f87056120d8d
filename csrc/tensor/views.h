// Tensors as windows into variables: reading and writing through sizes, strides and offset. All under the recorder's lock.
#pragma once

#include "graph/node.h"
#include "tensor/variable.h"

namespace ftm {

// The tensor's elements as a dense value of its own sizes.
Value read(const at::TensorImpl& tensor);
// Makes `value`, which has the tensor's sizes and dtype, the tensor's content.
void write(const at::TensorImpl& tensor, Value value);
// The variable's whole content as a value of this dtype (any shape); zeros if it was never written.
Value whole(Variable& variable, at::ScalarType dtype);

// A new tensor with this content; strides of a dense tensor.
at::Tensor make_tensor(const ValueType& type, c10::IntArrayRef strides, bool contiguous, Value value);

} // namespace ftm
