// Where in the user's program a call was recorded, for errors that surface later.
#pragma once

#include <torch/csrc/lazy/core/ir_metadata.h>

#include <memory>
#include <string>

namespace ftm {

// On nodes: a Python line, as text.
struct Location final : torch::lazy::UserMetaData {
  explicit Location(std::string text) : text(std::move(text)) {}
  std::string text;
};

// Whether errors of a running program name the Python line that recorded the call.
void set_locations(bool on);
// If they do: finds the line at which this thread's next calls are recorded. Not under the recorder's lock.
void note_location();
// The line that was noted last on this thread; null if none was.
const std::shared_ptr<torch::lazy::UserMetaData>& noted_location();

} // namespace ftm
