// There is one device, ftm:0.
#pragma once

#include <c10/core/Device.h>

namespace ftm {

c10::Device only_device();

// Throws for another ordinal; -1 is the current device.
void check_device(c10::DeviceIndex index);

} // namespace ftm
