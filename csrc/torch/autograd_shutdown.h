// The end of the process, and autograd's thread of the device.
#pragma once

namespace ftm {

// Waits until that thread has let go of the backward that it ran last, but not for long. It tells
// that one is over before it drops what that began with, objects of Python among them; while the
// interpreter is taken down, asking for Python's lock ends the process (support/shutdown.h).
// Without Python's lock.
void wait_for_autograd();

} // namespace ftm
