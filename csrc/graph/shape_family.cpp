#include "graph/shape_family.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace ftm {
namespace {

// Arguments that are sizes, counts or indices, which may vary within a family. All other arguments,
// such as dimensions, must agree.
// clang-format off
constexpr std::string_view kArguments[] = {
    "C", "HxW", "N", "diagonal", "end", "index", "input_size", "input_sizes", "k", "length", "m", "n",
    "normalized_shape", "num_classes", "num_samples", "num_weights", "offset", "output_size", "pad", "repeats",
    "self_sizes", "shifts", "size", "sizes", "split_size", "split_sizes", "start", "steps", "storage_offset",
    "strides"};
// clang-format on

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Letters and then digits, as in `f32`.
bool is_dtype(std::string_view word) {
  const auto letters =
      std::find_if(word.begin(), word.end(), [](char c) { return c < 'a' || c > 'z'; }) -
      word.begin();
  return letters > 0 && static_cast<size_t>(letters) < word.size() &&
         std::all_of(word.begin() + letters, word.end(), is_digit);
}

// Finds the numbers that may vary in a trace's text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<ShapeNumber> run() {
    for (size_t at = 0; at < text_.size();) {
      if (text_[at] == '"') {
        at = skip_string(at);
      } else if (is_word(text_[at])) {
        size_t end = at;
        while (is_word(next(end))) {
          ++end;
        }
        const bool is_whole_word = at == 0 || text_[at - 1] != '.';
        at = is_whole_word ? scan_value(text_.substr(at, end - at), end) : end;
      } else {
        ++at;
      }
    }
    return std::move(found_);
  }

 private:
  char next(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  // Returns the position after a string, whose contents are not scanned. Skips only the quote if
  // the string has no end.
  size_t skip_string(size_t start) const {
    for (size_t at = start + 1; at < text_.size(); ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == '"') {
        return at + 1;
      }
    }
    return start + 1;
  }

  // Scans the sizes or the value that follow a word, and returns the position after them.
  size_t scan_value(std::string_view word, size_t at) {
    if (next(at) == '[') {
      return scan_list(at, false, is_dtype(word), true);
    }
    if (next(at) != '=') {
      return at;
    }
    const bool varies =
        std::find(std::begin(kArguments), std::end(kArguments), word) != std::end(kArguments);
    if (next(at + 1) == '[') {
      return scan_list(at + 1, true, varies, false);
    }
    const size_t start = at + 1;
    size_t end = start + (next(start) == '-' ? 1 : 0);
    if (!is_digit(next(end))) {
      return at;
    }
    while (is_digit(next(end))) {
      ++end;
    }
    if (is_word(next(end)) || next(end) == '.') {
      return at;
    }
    if (varies) {
      add(start, end, false);
    }
    return end;
  }

  size_t scan_list(size_t open, bool negative, bool varies, bool is_extent) {
    size_t close = open + 1;
    while (is_digit(next(close)) || next(close) == ',' || (negative && next(close) == '-')) {
      ++close;
    }
    if (next(close) != ']' || close == open + 1) {
      return open;
    }
    for (size_t at = open + 1; varies && at < close; ++at) {
      size_t end = at + (text_[at] == '-' ? 1 : 0);
      if (!is_digit(text_[end])) {
        continue;
      }
      while (is_digit(text_[end])) {
        ++end;
      }
      add(at, end, is_extent);
      at = end;
    }
    return close + 1;
  }

  void add(size_t begin, size_t end, bool is_extent) {
    int64_t value = 0;
    if (std::from_chars(text_.data() + begin, text_.data() + end, value).ec == std::errc()) {
      found_.push_back({begin, end, value, is_extent});
    }
  }

  std::string_view text_;
  std::vector<ShapeNumber> found_;
};

} // namespace

std::vector<ShapeNumber> shape_numbers(std::string_view text) {
  return Scanner(text).run();
}

std::string shape_family_text(std::string_view text, const std::vector<ShapeNumber>& numbers) {
  std::string shared;
  shared.reserve(text.size());
  size_t at = 0;
  for (const auto& number : numbers) {
    shared.append(text.substr(at, number.begin - at));
    shared += '#';
    at = number.end;
  }
  shared.append(text.substr(at));
  return shared;
}

} // namespace ftm
