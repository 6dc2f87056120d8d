// Device, stream and events for ATen's guards.
#pragma once

namespace ftm {

// Registers the guard. Call it once.
void register_device_guard();

} // namespace ftm
