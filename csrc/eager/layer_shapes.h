// What the layers of networks return.
#pragma once

#include "eager/shape_table.h"

namespace ftm {

void add_layer_shapes(ShapeTable& table);

} // namespace ftm
