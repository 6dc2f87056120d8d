#include "tensor/fake_addresses.h"

#include "support/runtime.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <memory>

namespace ftm {
namespace {

constexpr uint64_t kFakeBit = uint64_t{1} << 63;
constexpr uint64_t kLargeBit = uint64_t{1} << 62;

// Maps numbers to live variables. Each variable has its own slot. Lock-free, since storages are
// made and freed with every call.
class SlotTable {
 public:
  explicit SlotTable(uint32_t capacity) : capacity_(capacity) {}

  uint32_t allocate(Variable& variable) {
    uint64_t free = free_.load(std::memory_order_acquire);
    while (number_of(free) != kNone) {
      const uint32_t next = slot(number_of(free)).next.load(std::memory_order_relaxed);
      if (free_.compare_exchange_weak(free, tagged(free, next), std::memory_order_acq_rel)) {
        slot(number_of(free)).variable.store(&variable, std::memory_order_release);
        return number_of(free);
      }
    }
    const uint32_t number = used_.fetch_add(1, std::memory_order_relaxed);
    if (number >= capacity_) {
      used_.fetch_sub(1, std::memory_order_relaxed);
      TORCH_CHECK_WITH(
          OutOfMemoryError, false, "ftm out of memory: more than ", capacity_,
          " storages of one kind");
    }
    ensure_slot(number).variable.store(&variable, std::memory_order_release);
    return number;
  }

  void release(uint32_t number) {
    slot(number).variable.store(nullptr, std::memory_order_release);
    uint64_t free = free_.load(std::memory_order_relaxed);
    do {
      slot(number).next.store(number_of(free), std::memory_order_relaxed);
    } while (!free_.compare_exchange_weak(free, tagged(free, number), std::memory_order_acq_rel));
  }

  // Returns null if the variable was freed.
  Variable* find(uint32_t number) const {
    const Chunk* chunk =
        number < capacity_ ? chunks_[number / kChunk].load(std::memory_order_acquire) : nullptr;
    return chunk != nullptr ? (*chunk)[number % kChunk].variable.load(std::memory_order_acquire)
                            : nullptr;
  }

 private:
  struct Slot {
    std::atomic<Variable*> variable{nullptr};
    std::atomic<uint32_t> next{0}; // next free slot
  };
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kChunk = 1 << 12;
  static constexpr uint32_t kChunks = 1 << 13;
  using Chunk = std::array<Slot, kChunk>;

  // Head of the list of free slots: the slot's number, and above it a counter of changes, which
  // protects compare-exchange from the ABA problem.
  static uint32_t number_of(uint64_t free) { return static_cast<uint32_t>(free); }
  static uint64_t tagged(uint64_t before, uint32_t number) {
    return ((before >> 32) + 1) << 32 | number;
  }

  Slot& slot(uint32_t number) {
    return (*chunks_[number / kChunk].load(std::memory_order_acquire))[number % kChunk];
  }
  Slot& ensure_slot(uint32_t number) {
    auto& entry = chunks_[number / kChunk];
    if (entry.load(std::memory_order_acquire) == nullptr) {
      auto chunk = std::make_unique<Chunk>();
      Chunk* none = nullptr;
      if (entry.compare_exchange_strong(none, chunk.get(), std::memory_order_acq_rel)) {
        [[maybe_unused]] const auto* leaked = chunk.release(); // never freed
      }
    }
    return slot(number);
  }

  const uint32_t capacity_;
  std::atomic<uint64_t> free_{kNone};
  std::atomic<uint32_t> used_{0};
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
};

// An address is: kFakeBit, kLargeBit or 0, slot number, byte in the storage. There is one address
// space for storages of up to 128 GiB, and one for larger ones, which are valid as long as no
// program computes them.
struct AddressSpace {
  int byte_bits;
  SlotTable slots;
};

constexpr int kSmallBits = 37;

struct AddressSpaces {
  AddressSpace small{kSmallBits, SlotTable(uint32_t{1} << (62 - kSmallBits))};
  AddressSpace large{kMaxAddressBits, SlotTable(uint32_t{1} << (62 - kMaxAddressBits))};
};

AddressSpace& address_space(bool is_small) {
  auto& spaces = part<AddressSpaces>();
  return is_small ? spaces.small : spaces.large;
}

uint64_t bits_of(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

AddressSpace& space_of(uint64_t bits) {
  return address_space((bits & kLargeBit) == 0);
}

uint32_t number_of(uint64_t bits) {
  return static_cast<uint32_t>((bits & ~(kFakeBit | kLargeBit)) >> space_of(bits).byte_bits);
}

} // namespace

void* allocate_fake_address(Variable& variable, int64_t nbytes) {
  const bool is_small = nbytes >> kSmallBits == 0;
  auto& space = address_space(is_small);
  const uint64_t number = space.slots.allocate(variable);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an identifier in the form of an address
  return reinterpret_cast<void*>(kFakeBit | (is_small ? 0 : kLargeBit) | number << space.byte_bits);
}

void release_fake_address(void* first) {
  space_of(bits_of(first)).slots.release(number_of(bits_of(first)));
}

bool is_fake_address(const void* address) {
  return (bits_of(address) & kFakeBit) != 0;
}

ByteLocation resolve_fake_address(const void* address) {
  const uint64_t bits = bits_of(address);
  const auto& space = space_of(bits);
  const uint64_t byte = bits & ((uint64_t{1} << space.byte_bits) - 1);
  return {space.slots.find(number_of(bits)), static_cast<int64_t>(byte)};
}

} // namespace ftm
