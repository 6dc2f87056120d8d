// The processors are shared: by the machine's threads, and by those of OpenMP, on which PyTorch's
// operators on the CPU run.
#pragma once

namespace ftm {

// After an operator OpenMP's threads spin for milliseconds, in case another one follows, and so
// take processors from the machine. GNU's runtime has them sleep at once when there are more
// threads than processors, but counts its own only. This gives it as many more as the machine has
// threads, which sleep for ever. False, with nothing done, where PyTorch has another runtime, or
// the environment says how its threads shall wait. Call it once.
bool stand_in_for_machine_threads(int count);

} // namespace ftm
