// Backward passes on the thread that calls `backward()`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ftm {

// Calls `run(outputs, *arguments, **keywords)`, which is PyTorch's function that runs a backward
// pass. If an output is on the device, the pass runs on this thread, as on the CPU. By default
// autograd's thread for the device would run it; recording gains nothing from that, and waking it
// and being woken takes some 40 us a step.
pybind11::object run_backward(
    const pybind11::function& run, const pybind11::sequence& outputs,
    const pybind11::args& arguments, const pybind11::kwargs& keywords);

} // namespace ftm
