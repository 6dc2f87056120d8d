#include "graph/structural_hash.h"

#include <cstring>

namespace ftm {

void Hash128::add(std::string_view text) {
  add(text.size());
  for (size_t start = 0; start < text.size(); start += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + start, std::min<size_t>(8, text.size() - start));
    add(word);
  }
}

} // namespace ftm
