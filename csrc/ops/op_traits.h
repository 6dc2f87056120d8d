// Properties of ops that their schemas do not have. The values come from the compiler's op records;
// backend/ftm_backend/frontend/oplib/op_traits.py documents every field.
#pragma once

#include "graph/call_spec.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ftm {

// Classes of calls, by their arguments (`Call` in op_traits.py).
enum class CallKind : uint8_t {
  always,
  out,
  mixed,
  mixed_reals,
  integers,
  bools,
  no_dims,
  negatives,
  negative_exponent,
  transposed_integers,
  halves,
  one_sample,
};

// How ATen's composite kernel of an op may be used (`Composite` in op_traits.py).
enum class CompositeUse : uint8_t { as_found, whole, unfit, serves };

// Element values for which eager raises.
enum class Refusal : uint8_t { none, zero_divisors, zero_divisors_if_rounded, no_distribution };

// Which argument has indices, and into which dimensions of the op's first argument.
struct IndexRule {
  enum class Extent : uint8_t { first, dim, classes, all, each };
  Extent extent;
  size_t index; // argument
  bool wraps; // negative indices count from the end
};

// Eager requires that each of `ends` (names of arguments, or integers) is at most the next. The
// check applies only if the bool argument `where` is not false; an empty `where` means always.
struct DomainRule {
  std::string where;
  std::vector<std::string> ends;
};

struct OpTraits {
  std::unordered_set<std::string> constants; // Scalar arguments that determine the program
  std::unordered_set<std::string> runtime; // float arguments that do not
  std::vector<IndexRule> indices; // at most one
  std::vector<DomainRule> domain; // at most one
  std::vector<CallKind> tried;
  std::vector<int64_t> ranks;
  std::vector<CallKind> asks_cpu; // at most one
  Refusal refuses = Refusal::none;
  CompositeUse composite = CompositeUse::as_found;
  bool cpu_indices = false;
  bool forbids_overlap = false;
  bool value_is_number = false;
  bool checks_dim = false;
  bool checks_alpha = false;
  bool may_fail = false;
  bool converts_to_out = false;
  bool takes_no_bools = false;
  bool masks_results = false;
  bool counts_bags = false;
  Concatenation concatenates = Concatenation::none;
  int64_t like = -1; // argument whose memory format the CPU gives the first result
  std::string layout; // rule for the result's strides; see shape_inference/result_strides.cpp
  std::string draws; // distribution; see reference/random_ops.cpp
};

// Returns the traits of an op, by its name without overload. The reference stays valid.
// Thread-safe.
const OpTraits& op_traits(const std::string& op);

// An op's name without overload; the words of each of its fields.
using TraitRow = std::pair<std::string, std::map<std::string, std::vector<std::string>>>;

// Replaces all traits. Follow it by clear_call_specs. Throws ValueError for an unknown field
// or word.
void set_op_traits(const std::vector<TraitRow>& rows);

// Returns the names of the ops with this trait.
std::vector<std::string> names_with(CompositeUse composite);

} // namespace ftm
