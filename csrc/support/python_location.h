// Where in the user's program a call is made: a line of Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ftm {

// "FILE:LINE"; null: there is none.
using PythonLine = std::shared_ptr<const std::string>;

// A thread, as Python knows it.
using ThreadIdent = unsigned long;
ThreadIdent this_thread();

// The innermost line of this thread's Python frames that is neither PyTorch's nor ours. Where there
// is none (the thread computes gradients), that of `asking`, for which it works. Takes the GIL.
PythonLine python_line(ThreadIdent asking);

// Folders whose files are not the user's.
void set_library_folders(std::vector<std::string> folders);

} // namespace ftm
