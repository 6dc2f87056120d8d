// Conditions that hang on nothing but whole numbers and booleans in memory and on constants:
// whether a mask hides anything, whether a text is finished. Python asks about them between the
// calls of a model, and each question would cut the trace there. The CPU answers these, counted as
// `conditions_on_cpu`: no program is launched, and what is pending stays one trace with what comes.
#pragma once

#include "tensor/storage_variable.h"

#include <optional>

namespace ftm {

// The answer, if the tensor is such a condition and little else is pending. Not under the
// recorder's lock.
std::optional<bool> known_condition(const at::Tensor& tensor);

// A result of a launch keeps how it follows from such values, so that later conditions can hang on
// it. `made`: where it will be. Under the recorder's lock.
void keep_known(const Value& result, const Value& made);

} // namespace ftm
