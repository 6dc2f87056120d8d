#include "native/code_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace ftm::native {

CodeMemory::~CodeMemory() {
  if (base_) munmap(base_, size_);
}

bool CodeMemory::fill(const std::vector<uint8_t>& code) {
  void* const memory =
      mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  std::memcpy(memory, code.data(), code.size());
  if (mprotect(memory, code.size(), PROT_READ | PROT_EXEC) != 0) {
    munmap(memory, code.size());
    return false;
  }
  base_ = static_cast<uint8_t*>(memory);
  size_ = code.size();
  return true;
}

} // namespace ftm::native
