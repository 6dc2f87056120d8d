// Shape functions of network layers.
#pragma once

#include "shape_inference/shape_registry.h"

namespace ftm {

// Adds the functions to the table.
void add_layer_shapes(ShapeTable& table);

} // namespace ftm
