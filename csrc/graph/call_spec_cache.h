// Cache of call specs. A key's words encode everything that the spec depends on.
#pragma once

#include "graph/call_spec.h"

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <vector>

namespace ftm {

using Key = c10::SmallVector<uint64_t, 64>;

// Each word of a key begins with a tag for what follows it, so that different calls never have
// equal words.
enum class Tag : uint64_t { none = 1, tensor, scalar, attribute, list, text };

// Puts the tag into the top 8 bits of the word; `payload` has at most 56 bits.
inline uint64_t tagged(Tag tag, uint64_t payload) {
  return static_cast<uint64_t>(tag) << 56 | payload;
}

// Evicts by generation. When a generation of the process begins, each cache drops the specs that
// were not used in the whole generation before and that no program or pending call references. So
// shapes that never recur do not accumulate, while a training step whose programs are alive finds
// its specs, however many there are. Generations count the specs created in all caches, which
// bounds the total over all kinds of calls. Not thread-safe: the owner guards it.
class CallSpecCache {
 public:
  // Returns the spec of a key, or null. `hash` is hash_words of the key. The pointer is valid until
  // the next call of a member function.
  const CallSpecPtr* find(const Key& key, uint64_t hash);
  // Adds a spec under a key that is not in the cache; returns a reference to it, with the same
  // validity.
  const CallSpecPtr& insert(const Key& key, uint64_t hash, CallSpecPtr spec);
  // Drops all specs.
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    std::vector<uint64_t> key;
    CallSpecPtr spec;
    uint64_t last_used; // generation
  };

  void evict_stale();

  uint64_t generation_ = 0;
  ska::flat_hash_map<uint64_t, std::vector<Entry>> entries_;
};

} // namespace ftm
