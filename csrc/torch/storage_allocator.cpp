#include "torch/storage_allocator.h"

#include "memory/memory_pool.h"
#include "support/device_index.h"
#include "tensor/storage_variable.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <unistd.h>

#include <algorithm>

namespace ftm {
namespace {

class StorageAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    return make_data_ptr(static_cast<int64_t>(nbytes));
  }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "ftm storages are copied by tensor.copy_, not by address");
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { empty_memory_pool(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return memory_statistics(resolve_device(device));
  }
  // Returns (free, total). The device's memory is a share of the host's, which other processes use
  // too.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t limit = device_memory();
    const size_t unused = limit - std::min(limit, memory_in_use(resolve_device(device)));
    return {std::min(page * static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)), unused), limit};
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    reset_accumulated_memory(resolve_device(device));
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    reset_peak_memory(resolve_device(device));
  }
};

} // namespace

void register_allocator() {
  static auto* allocator = new StorageAllocator;
  c10::SetAllocator(c10::kPrivateUse1, allocator);
}

} // namespace ftm
