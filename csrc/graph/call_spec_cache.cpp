#include "graph/call_spec_cache.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ftm {
namespace {

constexpr uint64_t kGeneration = 1 << 11; // forms of all caches; some 2 MB
std::atomic<uint64_t> made{0};

} // namespace

void CallSpecCache::come_of_age() {
  const uint64_t now = made.load(std::memory_order_relaxed) / kGeneration;
  if (now == generation_) {
    return;
  }
  generation_ = now;
  const auto is_forgotten = [&](const Entry& entry) {
    return entry.asked + 1 < now && entry.spec.use_count() == 1;
  };
  for (auto at = entries_.begin(); at != entries_.end();) {
    std::erase_if(at->second, is_forgotten);
    at = at->second.empty() ? entries_.erase(at) : std::next(at);
  }
}

const CallSpecPtr* CallSpecCache::find(const Key& key, uint64_t hash) {
  come_of_age();
  const auto found = entries_.find(hash);
  if (found != entries_.end()) {
    for (auto& entry : found->second) {
      if (entry.key.size() == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) {
        entry.asked = generation_;
        return &entry.spec;
      }
    }
  }
  return nullptr;
}

const CallSpecPtr& CallSpecCache::keep(const Key& key, uint64_t hash, CallSpecPtr spec) {
  made.fetch_add(1, std::memory_order_relaxed);
  auto& entries = entries_[hash];
  entries.push_back({std::vector<uint64_t>(key.begin(), key.end()), std::move(spec), generation_});
  return entries.back().spec;
}

} // namespace ftm
