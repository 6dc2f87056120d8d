#include "torch/device.h"

#include "memory/pool.h"
#include "random/generator.h"
#include "run/cut.h"
#include "run/launcher.h"
#include "tensor/variable.h"
#include "tensor/views.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/UniqueVoidPtr.h>

#include <chrono>

namespace ftm {
namespace {

c10::Device only_device() {
  return {c10::kPrivateUse1, 0};
}

void check_device(c10::DeviceIndex index) {
  TORCH_CHECK(
      index == 0 || index == -1, "invalid device ordinal ftm:", static_cast<int>(index),
      ": there is one device, ftm:0");
}

using Clock = std::chrono::steady_clock;

// One device with one stream: everything runs in the order in which it was recorded.
struct FtmGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return c10::kPrivateUse1;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_device(device.index());
    return only_device();
  }
  c10::Device getDevice() const override {
    return only_device();
  }
  void setDevice(c10::Device device) const override {
    check_device(device.index());
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, only_device());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return getStream(device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return 1;
  }
  // An event on the only stream has happened once that stream is idle. One that tells the time waits for that: what was
  // recorded before it may not even be launched yet.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    if (flag == c10::EventFlag::BACKEND_DEFAULT) {
      sync(/*wait=*/true);
      if (*event == nullptr) {
        *event = new Clock::time_point;
      }
      *static_cast<Clock::time_point*>(*event) = Clock::now();
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    const auto time = [](void* event) { return *static_cast<Clock::time_point*>(event); };
    return std::chrono::duration<double, std::milli>(time(to) - time(from)).count();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  void synchronizeEvent(void*) const override {
    sync(/*wait=*/true);
  }
  bool queryStream(const c10::Stream&) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override {
    sync(/*wait=*/true);
  }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    sync(/*wait=*/true);
  }
};

class StorageAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    return make_data_ptr(static_cast<int64_t>(nbytes));
  }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "ftm storages are copied by tensor.copy_, not by address");
  }
  bool initialized() override {
    return true;
  }
  void emptyCache(c10::MempoolId_t) override {
    empty_memory_pool();
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const auto values = memory_statistics();
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& allocated = stats.allocated_bytes[0];
    allocated.current = values.at("allocated_bytes.all.current");
    allocated.peak = values.at("allocated_bytes.all.peak");
    allocated.allocated = values.at("allocated_bytes.all.allocated");
    allocated.freed = values.at("allocated_bytes.all.freed");
    auto& reserved = stats.reserved_bytes[0];
    reserved.current = values.at("reserved_bytes.all.current");
    reserved.peak = values.at("reserved_bytes.all.peak");
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {
    reset_accumulated_memory();
  }
  void resetPeakStats(c10::DeviceIndex) override {
    reset_peak_memory();
  }
};

// A storage's elements survive a change of its size, as far as they fit.
void resize_storage(c10::StorageImpl& storage, size_t nbytes) {
  Variable& old = variable_of(storage);
  if (nbytes == static_cast<size_t>(old.nbytes())) {
    return;
  }
  Variable* created = nullptr;
  c10::DataPtr pointer = make_data_ptr(static_cast<int64_t>(nbytes), &created);
  {
    const RecorderLock lock(recorder_mutex());
    if (old.value().node && nbytes != 0) {
      auto dtype = type_of(old.value()).dtype;
      if (nbytes % c10::elementSize(dtype) != 0 || old.nbytes() % c10::elementSize(dtype) != 0) {
        dtype = at::kByte;
      }
      const auto itemsize = static_cast<int64_t>(c10::elementSize(dtype));
      const int64_t length = static_cast<int64_t>(nbytes) / itemsize;
      const int64_t kept = std::min(length, old.nbytes() / itemsize);
      Value content = strided_view(whole(old, dtype), {kept}, {1}, 0);
      if (kept < length) {
        content = updated(zeros({dtype, {length}}), std::move(content), {kept}, {1}, 0);
      }
      created->set_value(std::move(content));
    }
  }
  storage.set_data_ptr_noswap(std::move(pointer));
  storage.set_nbytes(nbytes);
}

struct FtmHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return 1;
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    check_device(device);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    check_device(device);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    check_device(device);
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    check_device(device);
    return make_generator();
  }
  // The machine's memory is the host's: every host allocation serves as a pinned one.
  at::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::kCPU);
  }
  at::Device getDeviceFromPtr(void*) const override {
    return only_device();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), nbytes);
  }
};

} // namespace

void register_device() {
  c10::register_privateuse1_backend("ftm");
  static auto* guard = new FtmGuard;
  c10::impl::registerDeviceGuard(c10::kPrivateUse1, guard);
  static auto* allocator = new StorageAllocator;
  c10::SetAllocator(c10::kPrivateUse1, allocator);
  at::RegisterPrivateUse1HooksInterface(new FtmHooks);
  register_executor();
  register_lazy_backend();
  install_fork_handlers();
}

} // namespace ftm
