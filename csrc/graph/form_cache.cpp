#include "graph/form_cache.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ftm {
namespace {

constexpr uint64_t kGeneration = 1 << 14; // forms of all caches; some 10 MB
std::atomic<uint64_t> made{0};

} // namespace

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

void FormCache::come_of_age() {
  const uint64_t now = made.load(std::memory_order_relaxed) / kGeneration;
  if (now != generation_) {
    old_ = now == generation_ + 1 ? std::move(young_) : Entries{};
    young_ = {};
    generation_ = now;
  }
}

const FormPtr* FormCache::find(const Key& key, uint64_t hash) {
  come_of_age();
  if (const auto* form = find_in(young_, key, hash)) {
    return form;
  }
  const auto* form = find_in(old_, key, hash);
  return form == nullptr ? nullptr : &keep(key, hash, FormPtr(*form));
}

const FormPtr& FormCache::keep(const Key& key, uint64_t hash, FormPtr form) {
  made.fetch_add(1, std::memory_order_relaxed);
  auto& entries = young_[hash];
  entries.push_back({std::vector<uint64_t>(key.begin(), key.end()), std::move(form)});
  return entries.back().form;
}

void FormCache::clear() {
  young_.clear();
  old_.clear();
}

} // namespace ftm
