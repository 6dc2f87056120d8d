#include "memory/pool.h"

#include <c10/util/Exception.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace ftm {
namespace {

constexpr size_t kLeast = 512;
constexpr size_t kSmall = size_t{1} << 20;
constexpr size_t kSteps = 8; // capacities from one power of two to the next, of blocks that are not small

// Blocks of nearby sizes are one another's: where each batch is of another length, no other way would one come back that fits.
// What a block has more than was asked for is never touched, and so takes no memory where it is whole pages.
size_t rounded(size_t bytes) {
  if (bytes <= kSmall) {
    return std::bit_ceil(std::max(kLeast, bytes));
  }
  const size_t granule = std::bit_floor(bytes) / kSteps;
  return (bytes + granule - 1) / granule * granule;
}

constexpr uint64_t kWindow = 4096; // blocks taken: what "lately" is
constexpr int64_t kAlwaysIdle = int64_t{16} << 20; // bytes that may lie idle however little is in use

struct Idle {
  void* data;
  uint64_t since; // blocks that had been taken then
};

struct Pool {
  std::mutex mutex;
  std::map<size_t, std::vector<Idle>> blocks; // that are idle, by capacity; of one capacity the longest idle first
  int64_t reserved = 0; // bytes taken from the system
  int64_t reserved_peak = 0;
  int64_t idle = 0; // bytes of reserved in blocks
  uint64_t taken = 0; // blocks, ever
  int64_t most_before = 0, most = 0; // bytes in use at once, in the last window and in this one

  void count_use(size_t capacity) {
    if (++taken % kWindow == 0) {
      most_before = std::exchange(most, 0);
    }
    most = std::max(most, reserved - idle + static_cast<int64_t>(capacity));
  }
};

Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

struct StorageCount { std::atomic<int64_t> current{0}, peak{0}, allocated{0}, freed{0}, allocations{0}; };

StorageCount storage_count;

void release_idle(Pool& pool) {
  for (auto& [capacity, blocks] : pool.blocks) {
    for (const Idle& block : blocks) {
      std::free(block.data);
    }
    pool.reserved -= static_cast<int64_t>(capacity * blocks.size());
  }
  pool.blocks.clear();
  pool.idle = 0;
}

using Idles = decltype(Pool::blocks)::iterator;

Idles longest_idle(Pool& pool) {
  return std::min_element(pool.blocks.begin(), pool.blocks.end(), [](const auto& a, const auto& b) {
    return a.second.front().since < b.second.front().since;
  });
}

void release_front(Pool& pool, Idles of) {
  auto& [capacity, blocks] = *of;
  std::free(blocks.front().data);
  pool.reserved -= static_cast<int64_t>(capacity);
  pool.idle -= static_cast<int64_t>(capacity);
  blocks.erase(blocks.begin());
  if (blocks.empty()) {
    pool.blocks.erase(of);
  }
}

// Blocks of sizes that nobody asks for any more must not pile up: a new block takes the place of ones that were idle for a window,
// and half as much as was lately in use at once may lie idle beside it.
void make_room(Pool& pool, int64_t capacity) {
  const int64_t limit = std::max(pool.most, pool.most_before) * 3 / 2 + kAlwaysIdle; // of what is reserved
  const int64_t before = pool.reserved;
  while (!pool.blocks.empty()) {
    const auto longest = longest_idle(pool);
    const bool replaced = longest->second.front().since + kWindow < pool.taken && before - pool.reserved < capacity;
    if (!replaced && pool.reserved + capacity <= limit) {
      break;
    }
    release_front(pool, longest);
  }
}

} // namespace

Block take_memory(size_t bytes) {
  const size_t capacity = rounded(bytes);
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.mutex);
  p.count_use(capacity);
  const auto found = p.blocks.find(capacity);
  if (found != p.blocks.end()) {
    auto& blocks = found->second;
    const Block block{blocks.back().data, capacity};
    p.idle -= static_cast<int64_t>(capacity);
    blocks.pop_back();
    if (blocks.empty()) {
      p.blocks.erase(found);
    }
    return block;
  }
  make_room(p, static_cast<int64_t>(capacity));
  void* data = std::aligned_alloc(64, capacity);
  if (data == nullptr) {
    release_idle(p);
    data = std::aligned_alloc(64, capacity);
  }
  TORCH_CHECK_WITH(
      OutOfMemoryError, data != nullptr, "ftm out of memory: tried to allocate ", capacity, " bytes, ", p.reserved,
      " bytes are reserved already");
  p.reserved += static_cast<int64_t>(capacity);
  p.reserved_peak = std::max(p.reserved_peak, p.reserved);
  return {data, capacity};
}

void give_memory(Block block) noexcept {
  if (block.data == nullptr) {
    return;
  }
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.mutex);
  p.blocks[block.capacity].push_back({block.data, p.taken});
  p.idle += static_cast<int64_t>(block.capacity);
}

void empty_memory_pool() {
  {
    auto& p = pool();
    std::lock_guard<std::mutex> guard(p.mutex);
    release_idle(p);
  }
#ifdef __GLIBC__
  malloc_trim(0); // which keeps what was freed, between blocks that are in use
#endif
}

void count_storage(int64_t bytes) noexcept {
  auto& count = storage_count;
  const int64_t now = count.current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (bytes >= 0) {
    count.allocated.fetch_add(bytes, std::memory_order_relaxed);
    count.allocations.fetch_add(1, std::memory_order_relaxed);
    int64_t peak = count.peak.load(std::memory_order_relaxed);
    while (now > peak && !count.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  } else {
    count.freed.fetch_add(-bytes, std::memory_order_relaxed);
  }
}

std::map<std::string, int64_t> memory_statistics() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.mutex);
  return {
      {"allocated_bytes.all.current", storage_count.current},
      {"allocated_bytes.all.peak", storage_count.peak},
      {"allocated_bytes.all.allocated", storage_count.allocated},
      {"allocated_bytes.all.freed", storage_count.freed},
      {"allocation.all.allocated", storage_count.allocations},
      {"reserved_bytes.all.current", p.reserved},
      {"reserved_bytes.all.peak", p.reserved_peak},
      {"active_bytes.all.current", p.reserved - p.idle},
      {"inactive_bytes.all.current", p.idle},
  };
}

void reset_peak_memory() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.mutex);
  p.reserved_peak = p.reserved;
  storage_count.peak = storage_count.current.load();
}

void reset_accumulated_memory() {
  storage_count.allocated = 0;
  storage_count.freed = 0;
  storage_count.allocations = 0;
}

void lock_memory() {
  pool().mutex.lock();
}

void unlock_memory() {
  pool().mutex.unlock();
}

} // namespace ftm
