#include "graph/call_spec_cache.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ftm {
namespace {

constexpr uint64_t kGeneration = 1 << 11; // specs created in all caches; about 2 MB
std::atomic<uint64_t> created{0};

} // namespace

void CallSpecCache::evict_stale() {
  const uint64_t now = created.load(std::memory_order_relaxed) / kGeneration;
  if (now == generation_) {
    return;
  }
  generation_ = now;
  const auto is_stale = [&](const Entry& entry) {
    return entry.last_used + 1 < now && entry.spec.use_count() == 1;
  };
  for (auto at = entries_.begin(); at != entries_.end();) {
    std::erase_if(at->second, is_stale);
    at = at->second.empty() ? entries_.erase(at) : std::next(at);
  }
}

const CallSpecPtr* CallSpecCache::find(const Key& key, uint64_t hash) {
  evict_stale();
  const auto found = entries_.find(hash);
  if (found != entries_.end()) {
    for (auto& entry : found->second) {
      if (entry.key.size() == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) {
        entry.last_used = generation_;
        return &entry.spec;
      }
    }
  }
  return nullptr;
}

const CallSpecPtr& CallSpecCache::insert(const Key& key, uint64_t hash, CallSpecPtr spec) {
  created.fetch_add(1, std::memory_order_relaxed);
  auto& entries = entries_[hash];
  entries.push_back({std::vector<uint64_t>(key.begin(), key.end()), std::move(spec), generation_});
  return entries.back().spec;
}

} // namespace ftm
