#include "program/source_origin.h"

#include <algorithm>

namespace ftm {
namespace {

// Returns the call that the user wrote: of a backward call, the forward call.
const CallOrigin& written(const CallOrigin& origin) {
  return origin.forward ? *origin.forward : origin;
}

} // namespace

std::string Origin::launch_text() const {
  return launched_at ? ", at " + *launched_at : "";
}

CallOriginPtr Origin::of_call(size_t call) const {
  const auto found = std::lower_bound(
      recorded_at.begin(), recorded_at.end(), call,
      [](const auto& noted, size_t wanted) { return noted.first < wanted; });
  return found != recorded_at.end() && found->first == call ? found->second : nullptr;
}

std::string Origin::record_text(size_t call) const {
  const auto origin = of_call(call);
  if (origin && written(*origin).line) {
    const auto& module = written(*origin).module;
    return "; recorded at " + *written(*origin).line + (module ? " in module " + *module : "");
  }
  return is_captured ? "" : "; FTM_DEBUG=locations tells the line that recorded it";
}

std::string Origin::candidates_text() const {
  constexpr size_t kMaxLines = 8;
  std::vector<std::string> texts;
  for (const auto& [call, origin] : recorded_at) {
    const auto& line = written(*origin).line;
    if (line && texts.size() < kMaxLines &&
        std::find(texts.begin(), texts.end(), *line) == texts.end()) {
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
  for (const auto& [call, origin] : recorded_at) {
    const auto& line = written(*origin).line;
    texts[call] = line ? *line : "";
  }
  return texts;
}

} // namespace ftm
