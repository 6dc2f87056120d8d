#include "torch/device_guard.h"

#include "sync/cut_trace.h"
#include "support/device_index.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>

namespace ftm {
namespace {

using Clock = std::chrono::steady_clock;

// Each device has one stream: everything runs in recording order.
struct FtmGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = current_device();
    set_current_device(device.index());
    return old;
  }
  c10::Device getDevice() const override { return current_device(); }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() < device_count()) {
      set_current_device(device.index());
    }
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(
        c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, resolve_device(device.index())));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  // The default value means all dtypes.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
  // An event on the only stream has happened once the stream is idle. A timing event waits for
  // that, since the calls before it may not be launched yet.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag flag)
      const override {
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
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { sync(/*wait=*/true); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { sync(/*wait=*/true); }
  void synchronizeDevice(const c10::DeviceIndex) const override { sync(/*wait=*/true); }
};

} // namespace

void register_device_guard() {
  static auto* guard = new FtmGuard;
  c10::impl::registerDeviceGuard(c10::kPrivateUse1, guard);
}

} // namespace ftm
