// The ops that the compiler supports, and their dtypes. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ftm {

// Replaces the table: for each op (without overload), the tokens of the dtypes that its tensor
// arguments may have. The name "*" allows every op. Throws ValueError for an unknown token.
void set_compiled_ops(const std::vector<std::pair<std::string, std::vector<std::string>>>& table);
// Whether the compiler supports the op for these dtypes: a bit set over at::ScalarType of its
// tensor arguments.
bool is_compiled(const std::string& name, uint64_t dtypes);

} // namespace ftm
