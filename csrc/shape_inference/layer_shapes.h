// What the layers of networks return.
#pragma once

#include "shape_inference/shape_registry.h"

namespace ftm {

void add_layer_shapes(ShapeTable& table);

} // namespace ftm
