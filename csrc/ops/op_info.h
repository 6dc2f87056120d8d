// Per-op data that the recorder needs: derived from the schema, and from the traits for what
// the schema does not have (ops/op_traits.h).
#pragma once

#include "graph/call_spec_cache.h"
#include "ops/op_traits.h"

#include <torch/csrc/lazy/core/ir.h>

#include <mutex>
#include <string>
#include <vector>

namespace ftm {

// How the recorder treats an argument. Attributes are part of the call spec.
enum class ArgumentKind : uint8_t {
  tensor, // or None
  tensor_list, // Tensor[], Tensor?[]
  scalar, // Scalar that is a runtime value; a bool is an attribute
  scalar_constant, // Scalar that determines the program (an exponent, a range's bounds): attribute
  scalar_list,
  integer, // int, dtype, layout, memory_format: attribute
  boolean,
  floating,
  string,
  int_list,
  float_list,
  bool_list,
  ignored, // device, generator, non_blocking, ...: not part of the spec
};

struct OpArgument {
  ArgumentKind kind;
  bool written; // the op writes to it
  bool out; // an out= argument, which the functional variant does not have
};

// The source of one of the op's returns.
struct OpReturn {
  int32_t argument; // the written argument that is returned; -1 for a new tensor
};

// One op overload. Made once, and never freed. Immutable, except for the cache of specs, the number
// of calls and, when the traits are replaced, the fields that depend on them.
struct Op {
  explicit Op(const c10::OperatorHandle& handle);

  c10::OperatorHandle handle; // the op that is called
  c10::OperatorHandle
      functional; // its functional variant, which is recorded; the op itself if that is functional
  bool has_functional = true; // false: no functional variant was found, so calls run on the CPU
  std::string name; // of `functional`, as in traces: "aten::mm"
  std::string called_name; // of `handle`
  torch::lazy::OpKind kind;
  std::vector<OpArgument> arguments;
  std::vector<ArgumentKind> functional_kinds; // by argument of `functional`
  std::vector<int32_t> written; // written arguments; the i-th is the i-th functional result
  std::vector<OpReturn> returns;
  // Key of ATen's composite kernel for calls that the compiler does not support.
  std::optional<c10::DispatchKey> composite;
  bool random = false;
  int32_t generator = -1; // index of the generator argument
  bool data_dependent = false; // result shapes depend on elements
  bool cpu_indices = false; // index arguments may be on the CPU
  bool forbids_overlap = false; // eager raises if the result overlaps an input
  int32_t number_argument = -1; // tensor argument that eager converts to a number before it writes
  bool refuses_values = false; // eager raises for some element values of an operand
  bool has_domain = false; // eager raises for some numeric arguments
  bool has_numbers = false; // has Scalar arguments
  const OpTraits* traits = nullptr; // of the functional op
  bool may_fail = false; // a program with it may raise for an element's value
  const IndexRule* index_rule = nullptr; // non-null: an argument has indices into another

  int64_t recorded_calls = 0; // in this process; guarded by the recorder's lock

  // Guarded by its own mutex. Several threads may record at once.
  std::mutex mutex;
  CallSpecCache specs;
  CallSpecPtr find_spec(const Key& key, uint64_t hash); // null if there is none
  void insert_spec(const Key& key, uint64_t hash, const CallSpecPtr& spec);
};

// Returns the Op of "aten::name" or "aten::name.overload", which is never freed. Throws c10::Error
// if there is no such op. Thread-safe.
Op& op_named(const std::string& name);

// Returns how many calls of each op were recorded in this process, by `Op::name`. Must not be
// called under the recorder's lock.
std::map<std::string, int64_t> recorded_calls();

// Drops all specs and applies the traits again. Call it when the traits or the compiled
// ops were replaced.
void clear_call_specs();

} // namespace ftm
