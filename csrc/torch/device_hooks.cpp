#include "torch/device_hooks.h"

#include "random/generator.h"
#include "tensor/storage.h"
#include "torch/pinned_allocator.h"
#include "support/device_index.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace ftm {
namespace {

struct FtmHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto old = current_device().index();
    set_current_device(device);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_generator(device);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Device getDeviceFromPtr(void*) const override { return current_device(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), nbytes);
  }
};

} // namespace

void register_hooks() {
  static auto* hooks = new FtmHooks; // never freed, since PyTorch keeps the address
  at::RegisterPrivateUse1HooksInterface(hooks);
}

} // namespace ftm
