// The only device, ftm:0.
#pragma once

#include <c10/core/Device.h>

namespace ftm {

// Returns ftm:0.
c10::Device only_device();

// Throws for an ordinal other than 0 and -1, which is the current device.
void check_device(c10::DeviceIndex index);

} // namespace ftm
