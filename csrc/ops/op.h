// What recording needs to know of an op; all of it follows from its schema.
#pragma once

#include "graph/form.h"

#include <c10/util/flat_hash_map.h>
#include <torch/csrc/lazy/core/ir.h>

#include <mutex>
#include <string>
#include <vector>

namespace ftm {

enum class ArgumentKind : uint8_t {
  tensor, // or None
  tensor_list, // Tensor[], Tensor?[]
  scalar, // Scalar: a runtime value, or an attribute when it is a bool
  scalar_constant, // Scalar that shapes the program (an exponent, bounds of a range): part of the form
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
  explicit Op(c10::OperatorHandle handle);

  c10::OperatorHandle handle; // as called
  c10::OperatorHandle functional; // as recorded; the same for functional ops
  bool has_functional = true; // false: no functional form is known, so the op falls back
  std::string name; // "aten::mm": the functional form's name in a trace
  std::string called_name; // of `handle`
  torch::lazy::OpKind kind;
  std::vector<OpArgument> arguments;
  std::vector<ArgumentKind> functional_kinds; // of the functional form's arguments
  std::vector<int32_t> written; // arguments with a mutable alias, in order: functional results in order
  std::vector<OpReturn> returns;
  // ATen's kernel that is made of other ops, for calls that the compiler does not take whole.
  std::optional<c10::DispatchKey> composite;
  bool random = false;
  int32_t generator = -1; // argument
  bool data_dependent = false; // result shapes depend on elements
  bool cpu_indices = false; // index arguments may live on the CPU
  bool reads_late = false; // eager refuses to write over what the op still reads
  bool lax_meta = false; // the meta kernel takes calls that eager refuses
  bool has_numbers = false; // takes Scalars
  bool takes_places = false; // an argument says where in another one elements are (known_places.h)

  // Forms by key. A key's words tell everything about a call that its form depends on.
  struct Entry {
    std::vector<uint64_t> key;
    FormPtr form;
  };
  std::mutex mutex;
  ska::flat_hash_map<uint64_t, std::vector<Entry>> forms;
};

// The op record of "aten::name" or "aten::name.overload"; lives for ever. Throws if there is no such op.
Op& op_named(const std::string& name);

// Forgets all forms: the set of ops that the compiler takes has changed.
void forget_forms();

// The ops that the compiler takes, and for each the dtypes of its tensor arguments, as tokens. The name
// "*" stands for every op.
void set_native_ops(const std::vector<std::pair<std::string, std::vector<std::string>>>& table);
// `dtypes`: bit set over at::ScalarType of the tensor arguments.
bool is_native(const std::string& name, uint64_t dtypes);

} // namespace ftm
