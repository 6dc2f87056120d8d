// Shutdown of autograd's thread for the device.
#pragma once

namespace ftm {

// Waits, at most 2 s, until autograd's thread for the device has finished its last backward. That
// thread reports the end of a backward before it destroys the objects that the backward began with,
// which may be Python's. If the interpreter is being finalized by then, acquiring the GIL would end
// the process (support/shutdown.h). Call it without the GIL.
void wait_for_autograd();

} // namespace ftm
