// Forms by key. A key's words tell everything about a call that its form depends on.
#pragma once

#include "graph/form.h"

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <vector>

namespace ftm {

using Key = c10::SmallVector<uint64_t, 64>;

// Words of a key start with what the next ones are, so that different calls never give the same words.
enum class Tag : uint64_t { none = 1, tensor, scalar, attribute, list, text };

inline uint64_t tagged(Tag tag, uint64_t payload) {
  return static_cast<uint64_t>(tag) << 56 | payload;
}

// Whoever owns it guards it.
class FormCache {
 public:
  // Forgets all when it holds `most` hashes: shapes that never come back must not pile up, and nodes keep their own.
  explicit FormCache(size_t most) : most_(most) {}

  // Null if there is none. `hash`: hash_words of the key.
  const FormPtr* find(const Key& key, uint64_t hash) const;
  const FormPtr& keep(const Key& key, uint64_t hash, FormPtr form);
  void clear();

 private:
  struct Entry {
    std::vector<uint64_t> key;
    FormPtr form;
  };
  size_t most_;
  ska::flat_hash_map<uint64_t, std::vector<Entry>> entries_;
};

} // namespace ftm
