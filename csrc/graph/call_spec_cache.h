// Forms by key. A key's words tell everything about a call that its form depends on.
#pragma once

#include "graph/call_spec.h"

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <vector>

namespace ftm {

using Key = c10::SmallVector<uint64_t, 64>;

// Words of a key start with what the next ones are, so that different calls never give the same
// words.
enum class Tag : uint64_t { none = 1, tensor, scalar, attribute, list, text };

inline uint64_t tagged(Tag tag, uint64_t payload) {
  return static_cast<uint64_t>(tag) << 56 | payload;
}

// When a generation begins, what nobody has asked for in the whole one before, and no program or
// pending call holds, is forgotten. Shapes that never come back must not pile up, and a step whose
// programs are kept finds its forms however many they are. All caches are of one age, counted by
// the forms that were made for any of them, so that a process with many kinds of calls keeps no
// more than one with few. Whoever owns a cache guards it.
class CallSpecCache {
 public:
  // Null if there is none. `hash`: hash_words of the key. What it points to stays until the next
  // call of anything here.
  const CallSpecPtr* find(const Key& key, uint64_t hash);
  const CallSpecPtr& keep(const Key& key, uint64_t hash, CallSpecPtr spec);
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    std::vector<uint64_t> key;
    CallSpecPtr spec;
    uint64_t asked; // generation that asked for it last
  };

  void come_of_age();

  uint64_t generation_ = 0;
  ska::flat_hash_map<uint64_t, std::vector<Entry>> entries_;
};

} // namespace ftm
