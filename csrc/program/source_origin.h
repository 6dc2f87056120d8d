// Where a run comes from in the user's program, for the text of its failure.
#pragma once

#include "support/python_location.h"

#include <string>
#include <utility>
#include <vector>

namespace ftm {

struct Origin {
  PythonLine launched_at; // null: no line did
  std::vector<std::pair<size_t, PythonLine>>
      recorded_at; // calls of the trace whose line was noted, in order

  bool is_captured =
      false; // the program was made from a graph: its calls have no lines of their own

  // ", at FILE:LINE" or nothing.
  std::string launch_text() const;
  // "; recorded at FILE:LINE", or what would tell it.
  std::string record_text(size_t call) const;
  // "; what can fail in it was recorded at FILE:LINE, FILE:LINE", for a fault that names no call;
  // or nothing.
  std::string candidates_text() const;
  // The line of each call of a trace, or "".
  std::vector<std::string> lines(size_t calls) const;
};

} // namespace ftm
