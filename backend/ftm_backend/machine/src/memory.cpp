// Scratchpad memory.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "core_state.h"

namespace ftm {
namespace {

constexpr int64_t kHuge = int64_t(2) << 20;

} // namespace

Memory::~Memory() {
  std::free(data_);
}

uint8_t* Memory::ensure(int64_t bytes) {
  if (data_ && bytes <= size_) return data_;
  std::free(data_);
  data_ = nullptr;
  size_ = 0;
  // Large pages if available: scratchpads are accessed everywhere, all the time.
  const int64_t alignment = bytes >= kHuge / 2 ? kHuge : 4096;
  const int64_t room = (bytes + kSlack + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(size_t(alignment), size_t(room));
  if (!p) throw std::bad_alloc();
  if (alignment == kHuge) madvise(p, size_t(room), MADV_HUGEPAGE);
  std::memset(p, 0, size_t(room));
  data_ = static_cast<uint8_t*>(p);
  size_ = bytes;
  return data_;
}

} // namespace ftm
