// Assembly of loaded programs, which messages quote. Specializations of one dynamic-shape program
// differ in numbers only and share the text.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace ftm {

// Returns the text, shared with all other users of an equal text.
std::shared_ptr<const std::string> shared_text(std::string_view text);

} // namespace ftm
