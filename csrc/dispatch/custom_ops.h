// Ops of libraries other than ATen.
#pragma once

#include <string>

namespace ftm {

// Registers the recording kernel for the op `name` ("library::op"), which has an op record, in
// place of a kernel of its library. The library need not be loaded yet. Thread-safe.
void record_library_op(const std::string& name);

} // namespace ftm
