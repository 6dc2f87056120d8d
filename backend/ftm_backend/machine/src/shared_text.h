// The assembly of loaded programs, which messages quote.  Programs that differ in numbers alone, as
// the instances of a general one do, have the same.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace ftm {

// The text, which everybody who asks for it shares as long as somebody holds it.
std::shared_ptr<const std::string> shared_text(std::string_view text);

} // namespace ftm
