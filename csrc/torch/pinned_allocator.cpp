#include "torch/pinned_allocator.h"

#include "support/runtime.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace ftm {
namespace {

constexpr size_t kPinnedAlignment = 64;

// The allocated blocks, by address.
struct PinnedBlocks {
  std::mutex mutex;
  std::map<const char*, size_t> sizes;
  at::HostStats statistics;
};

void free_pinned(void* data) {
  auto& blocks = part<PinnedBlocks>();
  {
    const std::lock_guard<std::mutex> guard(blocks.mutex);
    const auto found = blocks.sizes.find(static_cast<const char*>(data));
    blocks.statistics.active_requests.decrease(1);
    blocks.statistics.active_bytes.decrease(found->second);
    blocks.statistics.allocations.decrease(1);
    blocks.statistics.allocated_bytes.decrease(found->second);
    ++blocks.statistics.num_host_free;
    blocks.sizes.erase(found);
  }
  std::free(data);
}

// Caches nothing: pinned memory costs no more than other host memory.
struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &free_pinned, at::kCPU};
    }
    const size_t size = (bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
    void* data = std::aligned_alloc(kPinnedAlignment, size);
    TORCH_CHECK_WITH(
        OutOfMemoryError, data != nullptr, "out of memory: tried to allocate ", bytes,
        " bytes of pinned host memory");
    auto& blocks = part<PinnedBlocks>();
    const std::lock_guard<std::mutex> guard(blocks.mutex);
    blocks.sizes.emplace(static_cast<const char*>(data), size);
    blocks.statistics.active_requests.increase(1);
    blocks.statistics.active_bytes.increase(size);
    blocks.statistics.allocations.increase(1);
    blocks.statistics.allocated_bytes.increase(size);
    ++blocks.statistics.num_host_alloc;
    return {data, data, &free_pinned, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }
  // A copy to the device has read its source when it returns, so there is nothing to wait for.
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    auto& blocks = part<PinnedBlocks>();
    const std::lock_guard<std::mutex> guard(blocks.mutex);
    return blocks.statistics;
  }
  void reset_accumulated_stats() override {
    change_stats([](c10::CachingAllocator::Stat& stat) { stat.reset_accumulated(); });
  }
  void reset_peak_stats() override {
    change_stats([](c10::CachingAllocator::Stat& stat) { stat.reset_peak(); });
  }

 private:
  template <typename Change>
  static void change_stats(Change change) {
    auto& blocks = part<PinnedBlocks>();
    const std::lock_guard<std::mutex> guard(blocks.mutex);
    change(blocks.statistics.active_requests);
    change(blocks.statistics.active_bytes);
    change(blocks.statistics.allocations);
    change(blocks.statistics.allocated_bytes);
  }
};

} // namespace

at::Allocator* host_allocator() {
  return at::getHostAllocator(at::kPrivateUse1);
}

bool is_pinned(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  auto& blocks = part<PinnedBlocks>();
  const std::lock_guard<std::mutex> guard(blocks.mutex);
  auto above = blocks.sizes.upper_bound(byte);
  return above != blocks.sizes.begin() && byte < std::prev(above)->first + std::prev(above)->second;
}

void register_host_allocator() {
  static auto* allocator = new PinnedAllocator;
  at::setHostAllocator(at::kPrivateUse1, allocator);
}

} // namespace ftm
