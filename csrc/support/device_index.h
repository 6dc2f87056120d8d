// The devices of the process, ftm:0 to ftm:n-1. They share the machine and the launch order; each
// has a generator and a memory pool of its own.
#pragma once

#include <c10/core/Device.h>

namespace ftm {

constexpr int kMaxDevices = 127;

// Returns the number of devices, at least 1.
int device_count();
// Sets the number of devices, up to kMaxDevices. Call it before the first tensor is made.
void set_device_count(int count);

// Returns the calling thread's current device, on which new tensors are made.
c10::Device current_device();
// Sets the calling thread's current device. An index of -1 changes nothing. Throws if there is no
// such device.
void set_current_device(c10::DeviceIndex index);
// Returns the index, or that of the current device for -1. Throws if there is no such device.
c10::DeviceIndex resolve_device(c10::DeviceIndex index);

// Makes a device the current one for the object's lifetime; -1 changes nothing.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : old_(current_device().index()) {
    set_current_device(index);
  }
  ~DeviceScope() { set_current_device(old_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex old_;
};

} // namespace ftm
