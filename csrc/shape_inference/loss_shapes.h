// What activations and losses return.
#pragma once

#include "shape_inference/shape_registry.h"

namespace ftm {

void add_loss_shapes(ShapeTable& table);

} // namespace ftm
