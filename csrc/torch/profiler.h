// What torch.profiler and torch.autograd.profiler see of the device: programs, each as one event on
// its timeline. (A call that is recorded takes no time there by itself.)
#pragma once

namespace ftm {

void register_profiler();

} // namespace ftm
