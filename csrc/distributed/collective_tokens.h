// Tokens: values that order the recorded collectives of a device. Each call takes the last token
// and makes the next one. A variable always holds the last one, so it is pending while collectives
// are.
#pragma once

#include <ATen/core/Tensor.h>

namespace ftm {

// Returns the tensor that holds the last token of a device. Must not be called under the recorder's
// lock, as the other functions without a note.
at::Tensor token_of(c10::Device device);

// Launches the recorded collectives, except those of one device, so that later tasks are behind
// them.
void launch_recorded_collectives(c10::DeviceIndex except = -1);

// Whether collectives are recorded on devices other than `except`. Called under the recorder's
// lock.
bool has_recorded_collectives(c10::DeviceIndex except);

// Launches the recorded collectives later, if their thread records nothing for some time. Other
// processes may wait for this one meanwhile, which may in turn wait for them: for a message over a
// socket, a file, or a key of the group's store.
void launch_when_idle();

} // namespace ftm
