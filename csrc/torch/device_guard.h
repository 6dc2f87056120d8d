// Device, stream and events as ATen's guards see them.
#pragma once

namespace ftm {

void register_device_guard();

} // namespace ftm
