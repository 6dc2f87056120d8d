// Shape functions of activations and losses.
#pragma once

#include "shape_inference/shape_registry.h"

namespace ftm {

// Adds the functions to the table.
void add_loss_shapes(ShapeTable& table);

} // namespace ftm
