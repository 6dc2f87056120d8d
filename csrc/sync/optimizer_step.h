// The begin and end of an optimizer's step, and when the step is launched.
//
// Constant fills that the step records (its initial state) become their own programs, so that the
// first training step is the same program as later steps.
//
// A step is launched at its end, so that it runs while Python continues. Metrics that are computed
// after the step and then read need another program. Therefore, if the last step of an optimizer
// was followed by such metrics, its next step is deferred: it is launched when a value is read,
// together with the metrics. If none is read, it is launched before the first call on a tensor that
// the step wrote, where the next step begins.
#pragma once

#include "tensor/storage_variable.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

namespace ftm {

// Marks the begin of an optimizer's step. Must not be called under the recorder's lock.
void begin_step();

// Marks the end of the step of the optimizer with this number, and launches it unless it is
// deferred. Must not be called under the recorder's lock.
void end_step(uint64_t optimizer);

// Call it before a call on these tensors is recorded after a step: launches a deferred step if the
// next one begins. Must not be called under the recorder's lock.
void launch_deferred_step(c10::ArrayRef<const at::TensorImpl*> operands);

} // namespace ftm
