// Decides when a trace that is cut into several programs gets a program of its own.
//
// The programs of the pieces often exist already, so a cut trace runs at once. But each piece costs
// a launch, and values go from piece to piece through memory. Example: an optimizer's step that is
// cut at each parameter takes ten times as long as one program. So when the launches of a trace
// have cost a tenth of what its compilation is expected to cost, the compiler makes a program for
// the whole trace, while the pieces continue to run. It takes over at the next launch. Thread-safe.
#pragma once

#include "graph/structural_hash.h"

#include <cstddef>

namespace ftm {

// Counts a launch of a trace that was cut. Returns true once for each trace: when its program is to
// be compiled.
bool is_whole_wanted(const Hash128& trace, size_t pieces, size_t calls);

// Notes that the program of a whole trace is compiled, so that the trace is not cut any more.
void set_whole_compiled(const Hash128& trace);
// Whether that was noted.
bool is_whole_compiled(const Hash128& trace);

// Lets whole programs take over at a launch that only the launches before decide, instead of when a
// compilation happens to end. A process calls it when it joins a group: pieces and whole round
// differently, and replicas of a model must stay equal.
void make_takeover_deterministic();
// Whether that was called.
bool is_takeover_deterministic();

} // namespace ftm
