// Families: traces that are alike but for numbers. A family's text is that of its members with `#`
// for each number that may vary: extents of types (`f32[8,6]`), and integers among arguments that
// count elements or say where they are (`offset=3`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ftm {

// A number of a trace's text that may vary; `begin` and `end` are its characters.
struct ShapeNumber {
  size_t begin;
  size_t end;
  int64_t value;
  bool is_extent; // of a type
};

// All of them, in order; linear in the text.
std::vector<ShapeNumber> shape_numbers(std::string_view text);

// What a trace shares with its family.
std::string shape_family_text(std::string_view text, const std::vector<ShapeNumber>& numbers);

} // namespace ftm
