#include "shared_text.h"

#include <functional>
#include <mutex>
#include <unordered_map>

namespace ftm {
namespace {

struct Texts {
  std::mutex mutex;
  std::unordered_multimap<size_t, std::weak_ptr<const std::string>> by_hash;
  size_t most = 64; // number of entries at which expired ones are dropped

  void sweep() {
    if (by_hash.size() < most) return;
    for (auto at = by_hash.begin(); at != by_hash.end();)
      at = at->second.expired() ? by_hash.erase(at) : std::next(at);
    most = 2 * by_hash.size() + 64;
  }
};

} // namespace

std::shared_ptr<const std::string> shared_text(std::string_view text) {
  static auto& texts = *new Texts; // never destroyed: threads may load during process exit
  const std::unique_lock<std::mutex> lock(texts.mutex, std::try_to_lock);
  if (!lock)
    return std::make_shared<const std::string>(text); // after a fork the mutex may stay locked
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
