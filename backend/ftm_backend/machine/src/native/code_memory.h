// Executable memory of one program. It is filled once, and from then on it cannot be written (W^X).
// Code comes only from the translator of this process, never from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "native/frame.h"

namespace ftm::native {

// A run of a body's operations, on rows of elements.
using RunFn = void (*)(Frame* frame);

class CodeMemory {
 public:
  CodeMemory() = default;
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  // Returns whether the system permits it; some forbid executable memory.
  bool fill(const std::vector<uint8_t>& code);
  RunFn run(int64_t offset) const { return reinterpret_cast<RunFn>(base_ + offset); }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
};

} // namespace ftm::native
