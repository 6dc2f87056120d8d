// Threads that wait for communication.
#pragma once

#include <functional>

namespace ftm {

// Calls `wait` on another thread. Ended threads are reused, so there are as many as calls that wait
// at the same time.
void run_on_waiter(std::function<void()> wait);

} // namespace ftm
