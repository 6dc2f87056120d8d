// The device's generator: it returns one (seed, offset) pair for each call that draws.
#pragma once

#include "random/philox.h"

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

namespace ftm {

// Returns the next draw of a generator argument (a Generator, or None for the default one) and
// advances it. Throws if the generator is another device's, or not the default one during a
// capture.
RandomDraw next_random_draw(const c10::IValue& generator);

// Returns a device's default generator, which lives for the rest of the process; -1 for that of the
// current device.
const at::Generator& default_generator(c10::DeviceIndex device = -1);

// For its lifetime, the default generator's offset starts at 0 on this thread, and draws on this
// thread leave the shared offset unchanged. Other threads are not affected. Instances must not
// nest.
class LocalRandomOffset {
 public:
  LocalRandomOffset();
  ~LocalRandomOffset();
  LocalRandomOffset(const LocalRandomOffset&) = delete;
  LocalRandomOffset& operator=(const LocalRandomOffset&) = delete;
};

// Makes a generator of a device with the default seed; -1 for the current device.
at::Generator make_generator(c10::DeviceIndex device);

} // namespace ftm
