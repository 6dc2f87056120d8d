#include "memory/pool.h"

#include <c10/util/Exception.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ftm {
namespace {

constexpr size_t kLeast = 512;
constexpr size_t kSteps = 8; // capacities from one power of two to the next

// Blocks of nearby sizes are one another's: where each batch is of another length, no other way would one come back that fits.
// What a block has more than was asked for, at most an eighth, is never touched, and so takes no memory where it is whole pages.
size_t rounded(size_t bytes) {
  const size_t granule = std::max(kLeast, std::bit_floor(bytes) / kSteps);
  return std::max(kLeast, (bytes + granule - 1) / granule * granule);
}

struct Pool {
  std::mutex mutex;
  std::unordered_map<size_t, std::vector<void*>> free_blocks; // by capacity
  int64_t reserved = 0; // bytes taken from the system
  int64_t reserved_peak = 0;
  int64_t idle = 0; // bytes of reserved in free_blocks
};

Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

struct StorageCount { std::atomic<int64_t> current{0}, peak{0}, allocated{0}, freed{0}, allocations{0}; };

StorageCount storage_count;

void release_idle(Pool& pool) {
  for (auto& [capacity, blocks] : pool.free_blocks) {
    for (void* block : blocks) {
      std::free(block);
    }
    pool.reserved -= static_cast<int64_t>(capacity * blocks.size());
  }
  pool.free_blocks.clear();
  pool.idle = 0;
}

} // namespace

Block take_memory(size_t bytes) {
  const size_t capacity = rounded(bytes);
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.mutex);
  auto found = p.free_blocks.find(capacity);
  if (found != p.free_blocks.end() && !found->second.empty()) {
    void* data = found->second.back();
    found->second.pop_back();
    p.idle -= static_cast<int64_t>(capacity);
    return {data, capacity};
  }
  // Blocks of other sizes must not pile up: what lies idle stays below what is in use.
  if (p.idle > p.reserved / 2 + (int64_t{64} << 20)) {
    release_idle(p);
  }
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
  p.free_blocks[block.capacity].push_back(block.data);
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
