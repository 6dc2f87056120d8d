// Where each recorded call comes from: the user's line of code, the module, and the operation of
// torch.profiler. It is noted while profiling and with FTM_DEBUG=locations; it explains
// recompiles, names kernels in profiles, and appears in errors that are raised later. Calls whose
// program may raise an error (indices out of range) always have their line noted. It is no part of
// any hash: equal programs share code, and each run has its own origins.
#pragma once

#include "support/python_location.h"

#include <cstdint>
#include <memory>
#include <string>

namespace ftm {

struct CallOrigin {
  PythonLine line; // user code that made the call; may be null
  std::shared_ptr<const std::string> module; // path of the module that made it; may be null
  // Of a call of a backward pass: the forward call that it differentiates; may be null.
  std::shared_ptr<const CallOrigin> forward;
  bool is_backward = false;
  uint64_t correlation = 0; // id of torch.profiler's operation that recorded it, or 0
  uint64_t range = 0; // id of the innermost record_function range, or 0
};
using CallOriginPtr = std::shared_ptr<const CallOrigin>;

// Returns an origin with only a line; null for a null line.
CallOriginPtr origin_of_line(const PythonLine& line);

// Why all calls' origins are noted.
enum class NoteReason : uint8_t { debugging = 1, profiling = 2 };
// Turns the noting of every call's origin on or off, for the process.
void note_all_origins(NoteReason reason, bool on);
bool notes_all_locations();

// Set and return the origin of this thread's next calls.
void note_origin(CallOriginPtr origin);
const CallOriginPtr& noted_origin();

// This thread's module whose forward pass runs. "" hides it, as a backward pass does.
void push_module(const std::string& path);
void pop_module();
// This thread's operations and ranges of torch.profiler.
void push_correlation(uint64_t id);
void pop_correlation();
void push_range(uint64_t id);
void pop_range();

// Returns the origin of a call at this moment. It has no line if it has `forward`.
CallOrigin current_origin(ThreadIdent requester);

// Calls of the forward pass, by the thread and the sequence number of the autograd node that
// differentiates them.
void note_forward(uint64_t thread, uint64_t sequence, const CallOriginPtr& origin);
CallOriginPtr find_forward(uint64_t thread, uint64_t sequence);

} // namespace ftm
