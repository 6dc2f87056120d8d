// Ops of other libraries than ATen.
#pragma once

#include <string>

namespace ftm {

// Records calls of `name` ("library::op") instead of calling what the library brings, whether its
// library is loaded yet or not: there is an op record for it.
void record_library_op(const std::string& name);

} // namespace ftm
