// What recording needs to know of some ops and their schemas don't tell. Names are those of functional forms, without
// overload, but for shapes_program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ftm {

// Numbers may change from step to step: Scalars, and floats that only enter arithmetic, as the first one says; but not
// Scalars that shape the program, as the second one says: result shapes, the code of a norm or a power. `op`: as called,
// without overload.
bool is_runtime_float(const std::string& op, const std::string& argument);
bool shapes_program(const std::string& op, const std::string& argument);

// Whether index arguments may live on the CPU.
bool takes_cpu_indices(const std::string& op);

// Whether eager refuses to write over what the op still reads.
bool forbids_overlap(const std::string& op);

// Whether the meta kernel takes calls that eager refuses.
bool has_permissive_meta(const std::string& op);

// Whether eager refuses elements of an operand: a divisor of integers that is 0, weights that are no distribution.
bool refuses_values(const std::string& op);

// Whether a program with the op can find, when it runs, elements that it refuses; besides ops that take indices.
bool may_fail(const std::string& op);

// Where the indices are that an op takes, and what they lie in: always in its first argument.
struct IndexRule {
  enum class Extent : uint8_t { first, dim, classes, all, each };
  Extent extent;
  size_t index; // argument
  bool wraps; // from the end, where negative
};
// Null if the op takes no indices of elements.
const IndexRule* find_index_rule(const std::string& op);

} // namespace ftm
