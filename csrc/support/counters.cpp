#include "support/counters.h"

#include "support/runtime.h"

#include <memory>
#include <mutex>

namespace ftm {
namespace {

struct CounterTable {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<std::atomic<int64_t>>> cells;
};

} // namespace

std::atomic<int64_t>& counter(const std::string& name) {
  auto& table = part<CounterTable>();
  std::lock_guard<std::mutex> guard(table.mutex);
  auto& cell = table.cells[name];
  if (!cell) {
    cell = std::make_unique<std::atomic<int64_t>>(0);
  }
  return *cell;
}

std::map<std::string, int64_t> counter_values() {
  auto& table = part<CounterTable>();
  std::lock_guard<std::mutex> guard(table.mutex);
  std::map<std::string, int64_t> values;
  for (const auto& [name, cell] : table.cells) {
    values[name] = cell->load();
  }
  return values;
}

void reset_counters() {
  auto& table = part<CounterTable>();
  std::lock_guard<std::mutex> guard(table.mutex);
  for (auto& [name, cell] : table.cells) {
    cell->store(0);
  }
}

} // namespace ftm
