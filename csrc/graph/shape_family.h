// Shape families: traces that differ only in numbers. A family's text is its members' text with `#`
// for each number that may vary: sizes in types (`f32[8,6]`), and integer arguments that are sizes,
// counts or indices (`offset=3`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ftm {

// A number in a trace's text that may vary. `begin` and `end` are character positions.
struct ShapeNumber {
  size_t begin;
  size_t end;
  int64_t value;
  bool is_extent; // a dimension of a type
};

// Returns all numbers that may vary, in order. Takes linear time.
std::vector<ShapeNumber> shape_numbers(std::string_view text);

// Returns the family's text: `text` with `#` for each of `numbers` (shape_numbers of the text).
std::string shape_family_text(std::string_view text, const std::vector<ShapeNumber>& numbers);

} // namespace ftm
