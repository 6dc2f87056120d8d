#include "graph/form_cache.h"

#include <algorithm>
#include <utility>

namespace ftm {

const FormPtr* FormCache::find_in(const Entries& entries, const Key& key, uint64_t hash) {
  const auto found = entries.find(hash);
  if (found != entries.end()) {
    for (const auto& entry : found->second) {
      if (entry.key.size() == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) {
        return &entry.form;
      }
    }
  }
  return nullptr;
}

const FormPtr* FormCache::find(const Key& key, uint64_t hash) {
  if (const auto* form = find_in(young_, key, hash)) {
    return form;
  }
  const auto* form = find_in(old_, key, hash);
  return form == nullptr ? nullptr : &keep(key, hash, FormPtr(*form));
}

const FormPtr& FormCache::keep(const Key& key, uint64_t hash, FormPtr form) {
  if (young_.size() >= most_ / 2) {
    old_ = std::exchange(young_, {});
  }
  auto& entries = young_[hash];
  entries.push_back({std::vector<uint64_t>(key.begin(), key.end()), std::move(form)});
  return entries.back().form;
}

void FormCache::clear() {
  young_.clear();
  old_.clear();
}

} // namespace ftm
