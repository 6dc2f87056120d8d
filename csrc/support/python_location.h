// Where in the user's Python program a call is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ftm {

// "FILE:LINE", or null if there is none.
using PythonLine = std::shared_ptr<const std::string>;

// A thread's identifier in Python (`threading.get_ident()`).
using ThreadIdent = unsigned long;
// Returns the calling thread's identifier.
ThreadIdent this_thread();

// Returns the innermost line of this thread's Python stack that is in the user's code. If there is
// none (for example on an autograd thread), returns that of the thread `requester`, for which this
// one works. Takes the GIL.
PythonLine python_line(ThreadIdent requester);

// Sets the folders whose files do not count as the user's code. Needs the GIL.
void set_library_folders(std::vector<std::string> folders);

} // namespace ftm
