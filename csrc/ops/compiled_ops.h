// The ops that the compiler takes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ftm {

// Replaces the table: for each op the dtypes of its tensor arguments, as tokens. The name "*"
// stands for every op.
void set_native_ops(const std::vector<std::pair<std::string, std::vector<std::string>>>& table);
// `dtypes`: bit set over at::ScalarType of the tensor arguments.
bool is_native(const std::string& name, uint64_t dtypes);

} // namespace ftm
