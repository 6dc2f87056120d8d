#include "shared_text.h"

#include <functional>
#include <mutex>
#include <unordered_map>

namespace ftm {
namespace {

struct Texts {
  std::mutex mutex;
  std::unordered_multimap<size_t, std::weak_ptr<const std::string>> by_hash;
  size_t most = 64; // entries before those that nobody holds any more are dropped

  void sweep() {
    if (by_hash.size() < most) return;
    for (auto at = by_hash.begin(); at != by_hash.end();)
      at = at->second.expired() ? by_hash.erase(at) : std::next(at);
    most = 2 * by_hash.size() + 64;
  }
};

} // namespace

std::shared_ptr<const std::string> shared_text(std::string_view text) {
  static auto& texts = *new Texts; // threads may load while the process ends
  const std::unique_lock<std::mutex> lock(texts.mutex, std::try_to_lock);
  if (!lock)
    return std::make_shared<const std::string>(text); // in a forked process it may never be free
  const size_t hash = std::hash<std::string_view>()(text);
  const auto [first, last] = texts.by_hash.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (auto known = at->second.lock(); known && *known == text) return known;
  texts.sweep();
  auto made = std::make_shared<const std::string>(text);
  texts.by_hash.emplace(hash, made);
  return made;
}

} // namespace ftm
