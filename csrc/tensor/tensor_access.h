// Tensors as views of variables: read and written through sizes, strides and offset. All functions:
// under the recorder's lock. `own` is the calling thread's trace.
#pragma once

#include "graph/node.h"
#include "tensor/storage_variable.h"

namespace ftm {

// The range of a variable's bytes that a tensor's elements are in, aligned to the element size. It
// is the whole variable, unless the storage is a slice that begins within an element, or the
// variable ends within one.
struct Region {
  Variable& variable;
  bool is_whole;
  int64_t begin; // byte
  int64_t nbytes;
  int64_t offset; // of the tensor's first element, in elements from `begin`
};
// Returns a tensor's region. Throws if its storage is not the device's.
Region region_of(const at::TensorImpl& tensor);

// Returns the tensor's elements as a dense value with the tensor's sizes.
Value read(const at::TensorImpl& tensor);
// Sets the tensor's elements to `value`, which has the tensor's sizes and dtype.
void write(const at::TensorImpl& tensor, Value value, PendingTrace& own = pending_trace());
// Returns the variable's whole content as a value of this dtype, of any shape. An unwritten
// variable is zero.
Value whole_value(Variable& variable, at::ScalarType dtype);

// Makes a tensor with this content, or without content if `value` has no node. Its strides may
// leave gaps, but must not overlap.
at::Tensor make_tensor(
    const ValueType& type, c10::IntArrayRef strides, bool contiguous, Value value,
    PendingTrace& own = pending_trace());

} // namespace ftm
