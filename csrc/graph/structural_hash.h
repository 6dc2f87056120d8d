// A 128-bit structural hash. Words are mixed in order; collisions are possible only by chance. It
// is never written to disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ftm {

// Multiplies to 128 bits and folds the halves.
inline uint64_t mix64(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

struct Hash128 {
  uint64_t low = 0x9ae16a3b2f90404fULL;
  uint64_t high = 0xc949c7defebe6d5bULL;

  void add(uint64_t word) {
    // Two lanes with different multipliers. Each lane also gets the other's state, so that no word
    // is lost when a product is zero.
    const uint64_t next_low = mix64(low ^ word, 0x9e3779b97f4a7c15ULL) + high;
    const uint64_t next_high = mix64(high ^ word, 0xd6e8feb86659fd93ULL) + (low << 1 | low >> 63);
    low = next_low;
    high = next_high;
  }

  // Adds the length and the bytes of a text.
  void add(std::string_view text);

  bool operator==(const Hash128& other) const = default;
};

struct Hash128Hasher {
  size_t operator()(const Hash128& hash) const { return hash.low; }
};

// Returns the 64-bit hash of a sequence of words, for tables that also compare the words.
inline uint64_t hash_words(const uint64_t* words, size_t count) {
  uint64_t state = 0x2d358dccaa6c78a5ULL ^ count;
  for (size_t i = 0; i < count; ++i) {
    state = mix64(state ^ words[i], 0x9e3779b97f4a7c15ULL) + words[i];
  }
  return state;
}

} // namespace ftm
