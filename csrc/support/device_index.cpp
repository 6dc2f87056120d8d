#include "support/device_index.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace ftm {
namespace {

std::atomic<int> count{1};
thread_local c10::DeviceIndex current = 0;

} // namespace

int device_count() {
  return count.load(std::memory_order_relaxed);
}

void set_device_count(int devices) {
  TORCH_CHECK_VALUE(
      devices >= 1 && devices <= kMaxDevices, "1 to ", kMaxDevices, " devices are possible, not ",
      devices);
  count = devices;
}

c10::Device current_device() {
  return {c10::kPrivateUse1, current};
}

void set_current_device(c10::DeviceIndex index) {
  current = resolve_device(index);
}

c10::DeviceIndex resolve_device(c10::DeviceIndex index) {
  if (index == -1) {
    return current;
  }
  const int devices = device_count();
  TORCH_CHECK(
      index >= 0 && index < devices, "invalid device ordinal ftm:", static_cast<int>(index), ": ",
      devices == 1 ? "there is one device, ftm:0"
                   : "the devices are ftm:0 to ftm:" + std::to_string(devices - 1));
  return index;
}

} // namespace ftm
