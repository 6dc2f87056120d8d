// Where a run originates in the user's program, for error messages.
#pragma once

#include "graph/source_location.h"

#include <string>
#include <utility>
#include <vector>

namespace ftm {

// Immutable once the job is launched.
struct Origin {
  PythonLine launched_at; // line that caused the launch; may be null
  std::vector<std::pair<size_t, CallOriginPtr>>
      recorded_at; // (call number, origin), if noted; sorted

  bool is_captured = false; // the program comes from a captured graph: its calls have no lines

  // Returns ", at FILE:LINE", or "".
  std::string launch_text() const;
  // Returns the origin of a call of the trace; null if it was not noted.
  CallOriginPtr of_call(size_t call) const;
  // Returns "; recorded at FILE:LINE" for a call of the trace, or a hint how to get the line.
  std::string record_text(size_t call) const;
  // For a fault that names no call: returns "; what can fail in it was recorded at FILE:LINE,
  // FILE:LINE" with up to 8 lines, or "".
  std::string candidates_text() const;
  // Returns the line of each call of a trace, "" if it is not noted.
  std::vector<std::string> lines(size_t calls) const;
};

} // namespace ftm
