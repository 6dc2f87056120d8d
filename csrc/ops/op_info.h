// What recording needs to know of an op: what follows from its schema, and the little that doesn't
// (recording_table.h).
#pragma once

#include "graph/call_spec_cache.h"
#include "ops/schema_annotations.h"

#include <torch/csrc/lazy/core/ir.h>

#include <mutex>
#include <string>
#include <vector>

namespace ftm {

enum class ArgumentKind : uint8_t {
  tensor, // or None
  tensor_list, // Tensor[], Tensor?[]
  scalar, // Scalar: a runtime value, or an attribute when it is a bool
  scalar_constant, // Scalar that shapes the program (an exponent, bounds of a range): part of the
                   // form
  scalar_list,
  integer, // int, dtype, layout, memory_format: part of the form
  boolean,
  floating,
  string,
  int_list,
  float_list,
  bool_list,
  ignored, // device, generator, non_blocking...: no part of the form
};

struct OpArgument {
  ArgumentKind kind;
  bool written; // a mutable alias annotation
  bool out; // an out= argument: no part of the functional form
};

// Where a return of the op comes from.
struct OpReturn {
  int32_t argument; // the written argument that is returned, or -1: a new tensor
};

struct Op {
  explicit Op(const c10::OperatorHandle& handle);

  c10::OperatorHandle handle; // as called
  c10::OperatorHandle functional; // as recorded; the same for functional ops
  bool has_functional = true; // false: no functional form is known, so the op falls back
  std::string name; // "aten::mm": the functional form's name in a trace
  std::string called_name; // of `handle`
  torch::lazy::OpKind kind;
  std::vector<OpArgument> arguments;
  std::vector<ArgumentKind> functional_kinds; // of the functional form's arguments
  std::vector<int32_t>
      written; // arguments with a mutable alias, in order: functional results in order
  std::vector<OpReturn> returns;
  // ATen's kernel that is made of other ops, for calls that the compiler does not take whole.
  std::optional<c10::DispatchKey> composite;
  bool random = false;
  int32_t generator = -1; // argument
  bool data_dependent = false; // result shapes depend on elements
  bool cpu_indices = false; // index arguments may live on the CPU
  bool forbids_overlap = false; // eager refuses to write over what the op still reads
  int32_t number = -1; // tensor argument that eager reads as a number, before it writes
  bool refuses_values = false; // eager looks at elements of an operand
  bool has_domain = false; // eager looks at the numbers
  bool has_numbers = false; // takes Scalars
  const RecordedFacts* facts = nullptr; // what else its record says
  bool may_fail = false; // a program with it can find elements that are refused
  const IndexRule* index_rule = nullptr; // an argument says where in another one elements are

  // Not under the recorder's lock alone: threads record at once.
  std::mutex mutex;
  CallSpecCache specs;
  CallSpecPtr find_form(const Key& key, uint64_t hash);
  void keep_form(const Key& key, uint64_t hash, const CallSpecPtr& spec);
};

// The op record of "aten::name" or "aten::name.overload"; lives for ever. Throws if there is no
// such op.
Op& op_named(const std::string& name);

// Forgets all forms: the set of ops that the compiler takes has changed.
void forget_forms();

} // namespace ftm
