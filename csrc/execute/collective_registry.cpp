#include "execute/collective_registry.h"

#include "program/machine.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace ftm {
namespace {

struct CollectiveTable {
  std::mutex mutex; // acquired alone
  std::unordered_map<int64_t, HostCollectivePtr> collectives;
  int64_t last = 0;
};

CollectiveTable& table() {
  static auto* instance = new CollectiveTable;
  return *instance;
}

// Calls `f`; writes the message of an exception to `err`. Returns the status for the machine.
template <typename F>
int with_status(char* err, size_t size, F f) {
  try {
    f();
    return 0;
  } catch (const c10::Error& error) {
    std::snprintf(err, size, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(err, size, "%s", error.what());
  }
  return 1;
}

int start_collective(void*, const ftm_collective* what, char* err, size_t size) {
  return with_status(
      err, size, [&] { find_collective(what->call)->start(what->source, what->data); });
}

int wait_for_collective(void*, int64_t call, char* err, size_t size) {
  return with_status(err, size, [&] { find_collective(call)->wait(); });
}

} // namespace

bool communicates(const CallSpec& spec) {
  return spec.kind == CallSpec::Kind::aten && spec.name == "ftm::collective";
}

int64_t add_collective(HostCollectivePtr collective) {
  static const bool is_set = [] {
    set_collectives({sizeof(ftm_collectives), nullptr, &start_collective, &wait_for_collective});
    return true;
  }();
  static_cast<void>(is_set);
  auto& t = table();
  const std::lock_guard<std::mutex> guard(t.mutex);
  collective->number = ++t.last;
  t.collectives.emplace(t.last, std::move(collective));
  return t.last;
}

HostCollectivePtr find_collective(int64_t number) {
  auto& t = table();
  const std::lock_guard<std::mutex> guard(t.mutex);
  const auto found = t.collectives.find(number);
  TORCH_CHECK(found != t.collectives.end(), "collective ", number, " has run already");
  return found->second;
}

void remove_collective(int64_t number) {
  auto& t = table();
  HostCollectivePtr removed; // freed after the unlock
  const std::lock_guard<std::mutex> guard(t.mutex);
  const auto found = t.collectives.find(number);
  if (found != t.collectives.end()) {
    removed = std::move(found->second);
    t.collectives.erase(found);
  }
}

bool has_collectives() {
  auto& t = table();
  const std::lock_guard<std::mutex> guard(t.mutex);
  return !t.collectives.empty();
}

} // namespace ftm
