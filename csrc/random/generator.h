// The device's generator: it hands out (seed, offset) pairs, one for each call that draws.
#pragma once

#include "random/philox.h"

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

namespace ftm {

// The next draw of a generator argument: a Generator, or None for the default one.
RandomDraw next_random_draw(const c10::IValue& generator);

const at::Generator& default_generator();
at::Generator make_generator();

} // namespace ftm
