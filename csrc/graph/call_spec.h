// The specification of a recorded call: everything but its operands (op, attributes, result types).
// Calls with the same op, attributes and operand types share one spec, so recording such a call
// costs a cache look-up and a node.
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

// One operand of a call: which argument it belongs to, and its index if that is a list argument
// (else -1). A complex number is two scalars, with indices 0 and 1.
struct OperandSlot {
  enum class Kind : uint8_t { value, scalar_float, scalar_int };
  Kind kind;
  int32_t argument; // of the recorded op's schema; -1 for the seed and offset, which come last
  int32_t element;
};

// Type of the result that the eager op returns. Strides may permute dimensions and leave gaps.
struct ResultType {
  ValueType type;
  c10::DimVector strides;
  bool contiguous = true;
};

// Whether an op concatenates its list operand: along an existing dimension (cat), or a new one
// (stack).
enum class Concatenation : uint8_t { none, dim, new_dim };

// Immutable after `finish`, and shared between threads.
struct CallSpec final : c10::intrusive_ptr_target {
  enum class Kind : uint8_t { aten, view, update, bitcast };

  Kind kind = Kind::aten;
  std::string name; // as printed in the trace
  std::optional<c10::OperatorHandle> op; // for kind aten
  const c10::OperatorHandle& handle() const {
    return op.value(); // NOLINT(bugprone-unchecked-optional-access): throws if there is none
  }
  std::vector<c10::IValue> arguments; // of op; None where operands are
  std::vector<int32_t> tensor_lists; // by argument: the length of a list of tensors, else -1
  std::vector<OperandSlot> slots; // operands, in order of the arguments
  std::vector<ResultType> results;
  std::vector<int32_t> list_lengths; // by return of op: -1, or the number of tensors in its list
  Hash128 hash; // of `words`
  // If not `none`, `arguments` has the dimension after the list.
  Concatenation concatenates = Concatenation::none;
  // Index of the value operand that the only result copies, so that nothing is computed; -1 for
  // none.
  int32_t copied = -1;
  // Hash of op and result dtype, without sizes and constants; 0 for views and bitcasts.
  uint32_t signature = 0;

  // For view and update: geometry in the base. For view and bitcast, results[0] is the result's
  // type.
  c10::DimVector sizes, strides;
  int64_t offset = 0;
  // For a view that only puts a dense permuted tensor into memory order: that tensor's geometry.
  c10::DimVector layout_sizes, layout_strides;

  int32_t values = 0; // slots of kind value
  int32_t scalars = 0; // other slots

  // How the recorder handles calls with this spec.
  bool fallback = false; // the compiler does not support it: run it on the CPU
  bool empty = false; // no result has elements: there is nothing to compute
  at::ScalarType fitted = at::ScalarType::Undefined; // dtype to which Scalar arguments are cast
  std::vector<c10::DimVector>
      written_sizes; // new sizes of resized arguments; empty: none is resized
  std::vector<c10::DimVector> written_strides; // their new strides; an empty one: row-major

  // Whether an argument of an aten call consists of operands. Otherwise it is an attribute.
  bool has_operands(size_t argument) const;
  // Returns words that specs have in common exactly if they specify the same call: op, attributes,
  // operand slots and result types. Throws NotImplementedError for an attribute of a type that
  // traces do not support.
  std::vector<uint64_t> words() const;

  // Computes `values`, `scalars`, `hash` and `signature`. Call when everything else is set. Throws
  // as `words` does.
  void finish();
};

// Whether traces contain an argument. Those that do not affect values, such as the device, are left
// out.
bool is_recorded(const c10::Argument& argument);

using CallSpecPtr = c10::intrusive_ptr<CallSpec>;

} // namespace ftm
