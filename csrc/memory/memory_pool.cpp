#include "memory/memory_pool.h"

#include "memory/device_memory_size.h"
#include "support/device_index.h"
#include "support/event_log.h"
#include "support/runtime.h"

#include <c10/util/Exception.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ftm {
namespace {

constexpr size_t kSmallestBlock = 512;
constexpr size_t kSmall = size_t{1} << 20;
constexpr size_t kSizeClasses = 8; // between two powers of two, for blocks above kSmall
constexpr size_t kHugePage = size_t{2} << 20;

// Rounds up to a size class. Nearby sizes share a class, so that blocks are reused even if each
// batch has another length. The unused tail of a large block is never touched, so its pages take no
// physical memory.
size_t size_class(size_t bytes) {
  if (bytes <= kSmall) {
    return std::bit_ceil(std::max(kSmallestBlock, bytes));
  }
  const size_t granule = std::bit_floor(bytes) / kSizeClasses;
  return (bytes + granule - 1) / granule * granule;
}

constexpr uint64_t kWindow = 4096; // the unit of age: this many allocations
constexpr int64_t kAlwaysIdle = int64_t{16} << 20; // idle bytes that are always allowed

struct Idle {
  void* data;
  uint64_t since; // value of Pool::allocations when the block became idle
};

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

// Statistics have a total, and one entry each for small and large blocks.
void increase(StatArray& statistic, bool is_small, size_t amount) {
  statistic[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  statistic[static_cast<size_t>(is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].increase(
      amount);
}

void decrease(StatArray& statistic, bool is_small, size_t amount) {
  statistic[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  statistic[static_cast<size_t>(is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].decrease(
      amount);
}

struct Pool {
  std::map<size_t, std::vector<Idle>> blocks; // idle ones by capacity, the longest idle first
  std::unordered_map<void*, Segment> segments; // all blocks, by address
  c10::CachingDeviceAllocator::DeviceStats statistics; // of blocks, not of storages
  double fraction = 1; // of the limit that may be reserved
  int64_t reserved = 0; // bytes allocated from the system
  int64_t idle = 0; // bytes of `reserved` in idle blocks
  uint64_t allocations = 0; // of blocks, since the process began
  int64_t previous_peak = 0, peak = 0; // bytes in use, in the previous and the current window

  void count_use(size_t capacity) {
    if (++allocations % kWindow == 0) {
      previous_peak = std::exchange(peak, 0);
    }
    peak = std::max(peak, reserved - idle + static_cast<int64_t>(capacity));
  }
};

// Statistics of tensors' storages.
struct StorageStatistics { StatArray count, bytes; };

// One object for each device, made when the device first has memory.
template <typename T, LockRank rank>
struct PerDevice {
  static constexpr LockRank kLockRank = rank;
  std::mutex mutex; // guards the others
  std::deque<T> objects; // by device

  T& of(c10::DeviceIndex device) {
    while (objects.size() <= static_cast<size_t>(device)) {
      objects.emplace_back();
    }
    return objects[device];
  }
  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
};

// Recording threads make storages while other threads run programs, so these have their own lock.
using Pools = PerDevice<Pool, LockRank::memory_pool>;
using Storages = PerDevice<StorageStatistics, LockRank::memory_statistics>;

// Access to a device's object, with the lock.
template <typename All>
class Locked {
 public:
  explicit Locked(c10::DeviceIndex device)
      : guard_(part<All>().mutex), object_(part<All>().of(device)) {}
  auto& operator*() { return object_; }
  auto* operator->() { return &object_; }

 private:
  const std::lock_guard<std::mutex> guard_;
  decltype(std::declval<All>().of(0)) object_;
};

void free_block(Pool& pool, void* data, size_t capacity) {
  pool.segments.erase(data);
  if (capacity < kHugePage) {
    std::free(data);
  } else {
    munmap(data, capacity);
  }
  pool.reserved -= static_cast<int64_t>(capacity);
  pool.idle -= static_cast<int64_t>(capacity);
  const bool is_small = capacity <= kSmall;
  decrease(pool.statistics.segment, is_small, 1);
  decrease(pool.statistics.reserved_bytes, is_small, capacity);
  ++pool.statistics.num_device_free;
}

void release_idle(Pool& pool) {
  for (auto& [capacity, blocks] : pool.blocks) {
    for (const Idle& block : blocks) {
      free_block(pool, block.data, capacity);
    }
  }
  pool.blocks.clear();
}

using Idles = decltype(Pool::blocks)::iterator;

Idles longest_idle(Pool& pool) {
  return std::min_element(pool.blocks.begin(), pool.blocks.end(), [](const auto& a, const auto& b) {
    return a.second.front().since < b.second.front().since;
  });
}

void release_front(Pool& pool, Idles entry) {
  auto& [capacity, blocks] = *entry;
  free_block(pool, blocks.front().data, capacity);
  blocks.erase(blocks.begin());
  if (blocks.empty()) {
    pool.blocks.erase(entry);
  }
}

// Frees idle blocks before a new one is allocated, so that blocks of sizes that are no longer
// requested do not accumulate. Blocks that were idle for a whole window are freed to make up for
// the new one. Beyond that, idle memory is limited to half the recent peak.
void trim_idle(Pool& pool, int64_t capacity) {
  const int64_t reserve_limit = std::max(pool.peak, pool.previous_peak) * 3 / 2 + kAlwaysIdle;
  const int64_t before = pool.reserved;
  while (!pool.blocks.empty()) {
    const auto longest = longest_idle(pool);
    const bool is_stale = longest->second.front().since + kWindow < pool.allocations &&
                          before - pool.reserved < capacity;
    if (!is_stale && pool.reserved + capacity <= reserve_limit) {
      break;
    }
    release_front(pool, longest);
  }
}

void count_allocation(Pool& pool, Segment& segment, size_t bytes) {
  segment.requested = std::max<size_t>(bytes, 1); // a block of an empty value is in use as well
  const bool is_small = segment.capacity <= kSmall;
  increase(pool.statistics.active, is_small, 1);
  increase(pool.statistics.active_bytes, is_small, segment.capacity);
}

// Maps a large block from the system, or returns null. Without huge pages, kernels that read and
// write several buffers spend up to a sixth of their time on page walks. Memory of the C library
// would not do: it may have small pages from an earlier use. Only pages that `bytes` fills are
// huge, so that the block's tail takes no physical memory.
void* map_block(size_t capacity, size_t bytes) {
  const size_t room = capacity + kHugePage;
  void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  auto* const first = static_cast<char*>(mapped);
  const size_t skipped = (0 - reinterpret_cast<uintptr_t>(mapped)) % kHugePage;
  if (skipped != 0) {
    munmap(first, skipped);
  }
  munmap(first + skipped + capacity, kHugePage - skipped);
#ifdef MADV_HUGEPAGE
  madvise(first + skipped, bytes / kHugePage * kHugePage, MADV_HUGEPAGE); // may be refused
#endif
  return first + skipped;
}

// Returns null if the system has no memory left, or the limit is reached.
void* allocate_block(Pool& pool, size_t capacity, size_t bytes) {
  const auto limit = static_cast<double>(device_memory()) * pool.fraction;
  if (static_cast<double>(pool.reserved) + static_cast<double>(capacity) > limit) {
    return nullptr;
  }
  return capacity < kHugePage ? std::aligned_alloc(64, capacity) : map_block(capacity, bytes);
}

size_t storage_bytes(c10::DeviceIndex device) {
  Locked<Storages> storages(device);
  return static_cast<size_t>(storages->bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

[[noreturn]] void throw_out_of_memory(Pool& pool, c10::DeviceIndex device, size_t nbytes) {
  ++pool.statistics.num_ooms;
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "ftm out of memory. Tried to allocate ", size_text(nbytes),
      ". The device has ", size_text(device_memory()), ", of which programs hold ",
      size_text(static_cast<size_t>(pool.reserved - pool.idle)), ", and tensors have storages of ",
      size_text(storage_bytes(device)), ".",
      pool.fraction == 1 ? "" : " set_per_process_memory_fraction limits what programs may hold.");
}

} // namespace

size_t device_memory() {
  return device_memory_size() / static_cast<size_t>(device_count());
}

Block allocate_block(size_t bytes, c10::DeviceIndex device) {
  const size_t capacity = size_class(bytes);
  Locked<Pools> pool(device);
  auto& p = *pool;
  p.count_use(capacity);
  const auto found = p.blocks.find(capacity);
  if (found != p.blocks.end()) {
    auto& blocks = found->second;
    const Block block{blocks.back().data, capacity, device};
    p.idle -= static_cast<int64_t>(capacity);
    blocks.pop_back();
    if (blocks.empty()) {
      p.blocks.erase(found);
    }
    count_allocation(p, p.segments.at(block.data), bytes);
    add_memory_event(block.data, static_cast<int64_t>(capacity));
    return block;
  }
  trim_idle(p, static_cast<int64_t>(capacity));
  void* data = allocate_block(p, capacity, bytes);
  if (data == nullptr) {
    ++p.statistics.num_alloc_retries;
    release_idle(p);
    data = allocate_block(p, capacity, bytes);
  }
  if (data == nullptr) {
    throw_out_of_memory(p, device, capacity);
  }
  p.reserved += static_cast<int64_t>(capacity);
  const bool is_small = capacity <= kSmall;
  increase(p.statistics.segment, is_small, 1);
  increase(p.statistics.reserved_bytes, is_small, capacity);
  ++p.statistics.num_device_alloc;
  count_allocation(
      p, p.segments.emplace(data, Segment{data, capacity, 0, device}).first->second, bytes);
  add_memory_event(data, static_cast<int64_t>(capacity));
  return {data, capacity, device};
}

void free_block(Block block) noexcept {
  if (block.data == nullptr) {
    return;
  }
  add_memory_event(block.data, -static_cast<int64_t>(block.capacity));
  Locked<Pools> pool(block.device);
  auto& p = *pool;
  p.blocks[block.capacity].push_back({block.data, p.allocations});
  p.idle += static_cast<int64_t>(block.capacity);
  p.segments.at(block.data).requested = 0;
  const bool is_small = block.capacity <= kSmall;
  decrease(p.statistics.active, is_small, 1);
  decrease(p.statistics.active_bytes, is_small, block.capacity);
}

void empty_memory_pool() {
  {
    auto& pools = part<Pools>();
    const std::lock_guard<std::mutex> guard(pools.mutex);
    for (auto& pool : pools.objects) {
      release_idle(pool);
    }
  }
#ifdef __GLIBC__
  malloc_trim(0); // glibc keeps freed memory between blocks that are in use
#endif
}

void count_new_storage(c10::DeviceIndex device, size_t bytes) noexcept {
  Locked<Storages> storages(device);
  increase(storages->count, bytes <= kSmall, 1);
  increase(storages->bytes, bytes <= kSmall, bytes);
}

void count_freed_storage(c10::DeviceIndex device, size_t bytes) noexcept {
  Locked<Storages> storages(device);
  decrease(storages->count, bytes <= kSmall, 1);
  decrease(storages->bytes, bytes <= kSmall, bytes);
}

c10::CachingDeviceAllocator::DeviceStats memory_statistics(c10::DeviceIndex device) {
  auto statistics = Locked<Pools>(device)->statistics;
  Locked<Storages> storages(device);
  statistics.allocation = storages->count;
  statistics.allocated_bytes = statistics.requested_bytes = storages->bytes;
  return statistics;
}

std::vector<Segment> memory_segments() {
  auto& pools = part<Pools>();
  const std::lock_guard<std::mutex> guard(pools.mutex);
  std::vector<Segment> segments;
  for (const auto& pool : pools.objects) {
    for (const auto& [address, segment] : pool.segments) {
      segments.push_back(segment);
    }
  }
  return segments;
}

void check_storage(c10::DeviceIndex device, size_t nbytes) {
  if (nbytes > device_memory()) {
    Locked<Pools> pool(device);
    throw_out_of_memory(*pool, device, nbytes);
  }
}

size_t memory_in_use(c10::DeviceIndex device) {
  Locked<Pools> pool(device);
  return static_cast<size_t>(pool->reserved - pool->idle);
}

void set_memory_fraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(
      fraction > 0 && fraction <= 1, "a fraction of memory is over 0 and at most 1, not ",
      fraction);
  Locked<Pools>(device)->fraction = fraction;
}

double memory_fraction(c10::DeviceIndex device) {
  return Locked<Pools>(device)->fraction;
}

namespace {

// Calls `change` for each of a device's memory statistics that is not a plain counter.
template <typename Change>
void change_statistics(c10::DeviceIndex device, Change change) {
  const auto change_all = [&](StatArray& statistic) {
    for (auto& part : statistic) {
      change(part);
    }
  };
  {
    Locked<Pools> pool(device);
    auto& blocks = pool->statistics;
    for (auto* statistic :
         {&blocks.segment, &blocks.reserved_bytes, &blocks.active, &blocks.active_bytes}) {
      change_all(*statistic);
    }
  }
  Locked<Storages> storages(device);
  change_all(storages->count);
  change_all(storages->bytes);
}

} // namespace

void reset_peak_memory(c10::DeviceIndex device) {
  change_statistics(device, [](c10::CachingAllocator::Stat& statistic) { statistic.reset_peak(); });
}

void reset_accumulated_memory(c10::DeviceIndex device) {
  change_statistics(
      device, [](c10::CachingAllocator::Stat& statistic) { statistic.reset_accumulated(); });
  Locked<Pools> pool(device);
  pool->statistics.num_alloc_retries = pool->statistics.num_ooms = 0;
  pool->statistics.num_device_alloc = pool->statistics.num_device_free = 0;
}

} // namespace ftm
