// The device's generator: it hands out (seed, offset) pairs, one for each call that draws.
#pragma once

#include "random/philox.h"

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

namespace ftm {

// The next draw of a generator argument: a Generator, or None for the default one.
RandomDraw next_random_draw(const c10::IValue& generator);

const at::Generator& default_generator();

// While it lives, this thread finds the default generator's offset at 0 and moves that alone: other
// threads, which draw meanwhile, find the generator as they would have. They do not nest.
class DrawsOfItsOwn {
 public:
  DrawsOfItsOwn();
  ~DrawsOfItsOwn();
  DrawsOfItsOwn(const DrawsOfItsOwn&) = delete;
  DrawsOfItsOwn& operator=(const DrawsOfItsOwn&) = delete;
};

at::Generator make_generator();

} // namespace ftm
