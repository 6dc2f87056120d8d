// The form of a recorded call: everything about it but its operands. Calls that agree in op,
// attributes and shapes share one form, so that recording one more costs a look-up and a node.
#pragma once

#include "graph/structural_hash.h"
#include "graph/value_type.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/DimVector.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <vector>

namespace ftm {

// An operand's place in a call: which argument it belongs to, and its index in a list argument
// (else -1). A complex number is two scalars, 0 and 1.
struct OperandSlot {
  enum class Kind : uint8_t { value, scalar_float, scalar_int };
  Kind kind;
  int32_t argument; // of the recorded op's schema; -1 for seed and offset, which come last
  int32_t element;
};

// What the eager op's result would look like; strides may permute the dimensions, and leave gaps.
struct ResultType {
  ValueType type;
  c10::DimVector strides;
  bool contiguous = true;
};

enum class Concatenation : uint8_t { none, dim, new_dim };

struct CallSpec final : c10::intrusive_ptr_target {
  enum class Kind : uint8_t { aten, view, update, bitcast };

  Kind kind = Kind::aten;
  std::string name; // as in the trace's text
  std::optional<c10::OperatorHandle> op; // kind aten
  const c10::OperatorHandle& handle() const {
    return op.value();
  } // NOLINT(bugprone-unchecked-optional-access): throws
  std::vector<c10::IValue> arguments; // of op; None where operands go
  std::vector<int32_t> tensor_lists; // for each of arguments: length of a list of tensors, else -1
  std::vector<OperandSlot> slots; // operands in the order in which the text has them
  std::vector<std::string> pieces; // text around the slots: slots.size() + 1 of them
  std::vector<ResultType> results;
  std::vector<int32_t>
      list_lengths; // for each return of op: -1, or the number of tensors in its list
  Hash128 hash; // of the text and the result types
  // What concatenates a list of values: along a dimension of theirs, or a new one. `arguments` has
  // the dimension behind the list.
  Concatenation concatenates = Concatenation::none;
  // The value operand that the only result is a copy of, so that there is nothing to compute; -1:
  // none is.
  int32_t copied = -1;
  uint32_t signature =
      0; // of op and result dtype, without sizes and constants; 0 for views and bitcasts

  // view, update: the strided window; view, bitcast: results[0] has the rest
  c10::DimVector sizes, strides;
  int64_t offset = 0;
  // A view that only puts a permuted dense tensor in memory order remembers the tensor's own
  // geometry.
  c10::DimVector layout_sizes, layout_strides;

  int32_t values = 0; // slots of kind value
  int32_t scalars = 0; // other slots

  // What recording does with a call of this form.
  bool fallback = false; // the compiler doesn't take it
  bool empty = false; // no result has elements: there is nothing to compute
  at::ScalarType fitted =
      at::ScalarType::Undefined; // numbers in Scalar arguments become this dtype
  std::vector<c10::DimVector> written_sizes; // of arguments that the call resizes; empty: none does
  std::vector<c10::DimVector>
      written_strides; // that they have if they are resized; an empty one: row-major

  // Fills `values`, `scalars`, `hash` and `signature`; call when all else is set.
  void finish();
};

using CallSpecPtr = c10::intrusive_ptr<CallSpec>;

} // namespace ftm
