#include "graph/form_cache.h"

#include <algorithm>

namespace ftm {

const FormPtr* FormCache::find(const Key& key, uint64_t hash) const {
  const auto found = entries_.find(hash);
  if (found != entries_.end()) {
    for (const auto& entry : found->second) {
      if (entry.key.size() == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) {
        return &entry.form;
      }
    }
  }
  return nullptr;
}

const FormPtr& FormCache::keep(const Key& key, uint64_t hash, FormPtr form) {
  if (entries_.size() >= most_) {
    entries_.clear();
  }
  auto& entries = entries_[hash];
  entries.push_back({std::vector<uint64_t>(key.begin(), key.end()), std::move(form)});
  return entries.back().form;
}

void FormCache::clear() {
  entries_.clear();
}

} // namespace ftm
