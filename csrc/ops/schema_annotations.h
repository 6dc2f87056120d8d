// The table of what schemas don't say, as the op records have it
// (backend/ftm_backend/frontend/oplib/schema_annotations.py, which says what each fact means).
#pragma once

#include "graph/call_spec.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ftm {

// Kinds of calls, told by their arguments.
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

// What ATen's kernel that is made of other ops is good for.
enum class CompositeUse : uint8_t { as_found, whole, unfit, serves };

// Elements that eager refuses.
enum class Refusal : uint8_t { none, zero_divisors, zero_divisors_if_rounded, no_distribution };

// Where the indices are that an op takes, and what they lie in: always in its first argument.
struct IndexRule {
  enum class Extent : uint8_t { first, dim, classes, all, each };
  Extent extent;
  size_t index; // argument
  bool wraps; // from the end, where negative
};

// Eager asks that each of `ends`, names of arguments or integers, is at most the next; `where`: a
// bool argument, or empty.
struct DomainRule {
  std::string where;
  std::vector<std::string> ends;
};

struct RecordedFacts {
  std::unordered_set<std::string> constants; // Scalars that shape the program
  std::unordered_set<std::string> runtime; // floats that don't
  std::vector<IndexRule> indices; // one, or none
  std::vector<DomainRule> domain; // one, or none
  std::vector<CallKind> tried;
  std::vector<int64_t> ranks;
  std::vector<CallKind> asks_cpu; // one, or none
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
  int64_t like = -1; // argument whose memory format the first result has on the CPU
  std::string layout; // shape_inference/result_strides.cpp has the rule
  std::string draws; // reference/random_ops.cpp has the distribution
};

// Of a name without overload; lives for ever.
const RecordedFacts& recorded_facts(const std::string& op);

// Name without overload; the words of each fact.
using RecordingRow = std::pair<std::string, std::map<std::string, std::vector<std::string>>>;

// Replaces the table; forget_forms makes ops read it. Throws ValueError for a word that nothing
// here knows.
void set_recording(const std::vector<RecordingRow>& rows);

// The names of which the table says so.
std::vector<std::string> names_with(CompositeUse composite);

} // namespace ftm
