// An optimizer's step, from begin to end.
//
// What it begins its state with is filled by programs of its own, so that the first training step
// is the same program as later ones.
//
// Where the program of a training step is cut: at the end of the optimizer's step, or a little
// later.
//
// A step is launched where it ends, so that it runs while Python goes on. Metrics that are computed
// after that and then read cost a program of their own. So where a step was followed by such
// metrics, the next step of the same optimizer is not launched at once: it waits for the read,
// which the metrics then share with it, or, if none comes, for the first call on anything that the
// step has written, which is where the next step begins.
#pragma once

#include "tensor/storage_variable.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

namespace ftm {

// The step of an optimizer begins. Not under the recorder's lock.
void begin_step();

// It is over; `optimizer` tells it from others. Not under the recorder's lock.
void end_step(uint64_t optimizer);

// A call on these is about to be recorded, after a step. Not under the recorder's lock.
void look_for_next_step(c10::ArrayRef<const at::TensorImpl*> operands);

} // namespace ftm
