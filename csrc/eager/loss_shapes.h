// What activations and losses return.
#pragma once

#include "eager/shape_table.h"

namespace ftm {

void add_loss_shapes(ShapeTable& table);

} // namespace ftm
