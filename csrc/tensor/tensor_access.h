// Tensors as windows into variables: reading and writing through sizes, strides and offset. All
// under the recorder's lock. `own`: the thread's trace.
#pragma once

#include "graph/node.h"
#include "tensor/storage_variable.h"

namespace ftm {

// The bytes that are a variable's content as the elements among which a tensor's are: all of them,
// or, where the tensor's storage is a slice that begins between elements, or a variable ends there,
// a run of them that doesn't.
struct Region {
  Variable& variable;
  bool is_whole;
  int64_t begin; // byte
  int64_t nbytes;
  int64_t offset; // of the tensor's first element, in elements
};
Region region_of(const at::TensorImpl& tensor);

// The tensor's elements as a dense value of its own sizes.
Value read(const at::TensorImpl& tensor);
// Makes `value`, which has the tensor's sizes and dtype, the tensor's content.
void write(const at::TensorImpl& tensor, Value value, PendingTrace& own = pending_trace());
// The variable's whole content as a value of this dtype (any shape); zeros if it was never written.
Value whole(Variable& variable, at::ScalarType dtype);

// A new tensor with this content. Its strides may leave gaps, but no two elements share a place.
at::Tensor make_tensor(
    const ValueType& type, c10::IntArrayRef strides, bool contiguous, Value value,
    PendingTrace& own = pending_trace());

} // namespace ftm
