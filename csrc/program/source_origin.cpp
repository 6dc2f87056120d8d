#include "program/source_origin.h"

#include <algorithm>

namespace ftm {

std::string Origin::launch_text() const {
  return launched_at ? ", at " + *launched_at : "";
}

std::string Origin::record_text(size_t call) const {
  const auto found = std::lower_bound(
      recorded_at.begin(), recorded_at.end(), call,
      [](const auto& noted, size_t wanted) { return noted.first < wanted; });
  if (found != recorded_at.end() && found->first == call) {
    return "; recorded at " + *found->second;
  }
  return is_captured ? "" : "; FTM_DEBUG=locations tells the line that recorded it";
}

std::string Origin::candidates_text() const {
  constexpr size_t kMaxLines = 8;
  std::vector<std::string> texts;
  for (const auto& [call, line] : recorded_at) {
    if (texts.size() < kMaxLines && std::find(texts.begin(), texts.end(), *line) == texts.end()) {
      texts.push_back(*line);
    }
  }
  std::string all;
  for (const auto& text : texts) {
    all += (all.empty() ? "; what can fail in it was recorded at " : ", ") + text;
  }
  return all;
}

std::vector<std::string> Origin::lines(size_t calls) const {
  std::vector<std::string> texts(calls);
  for (const auto& [call, line] : recorded_at) {
    texts[call] = *line;
  }
  return texts;
}

} // namespace ftm
