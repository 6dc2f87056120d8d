#include "tensor/fake_addresses.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <memory>

namespace ftm {
namespace {

constexpr uint64_t kMark = uint64_t{1} << 63;
constexpr uint64_t kLarge = uint64_t{1} << 62;

// The variables that live, each in a slot of its own until it dies. Takes no lock: storages come
// and go with every call.
class Slots {
 public:
  explicit Slots(uint32_t most) : most_(most) {}

  uint32_t take(Variable& variable) {
    uint64_t free = free_.load(std::memory_order_acquire);
    while (number_of(free) != kNone) {
      const uint32_t next = slot(number_of(free)).next.load(std::memory_order_relaxed);
      if (free_.compare_exchange_weak(free, tagged(free, next), std::memory_order_acq_rel)) {
        slot(number_of(free)).variable.store(&variable, std::memory_order_release);
        return number_of(free);
      }
    }
    const uint32_t number = used_.fetch_add(1, std::memory_order_relaxed);
    if (number >= most_) {
      used_.fetch_sub(1, std::memory_order_relaxed);
      TORCH_CHECK_WITH(
          OutOfMemoryError, false, "ftm out of memory: more than ", most_, " storages of one kind");
    }
    made(number).variable.store(&variable, std::memory_order_release);
    return number;
  }

  void give(uint32_t number) {
    slot(number).variable.store(nullptr, std::memory_order_release);
    uint64_t free = free_.load(std::memory_order_relaxed);
    do {
      slot(number).next.store(number_of(free), std::memory_order_relaxed);
    } while (!free_.compare_exchange_weak(free, tagged(free, number), std::memory_order_acq_rel));
  }

  // Null where none lives.
  Variable* find(uint32_t number) const {
    const Chunk* chunk =
        number < most_ ? chunks_[number / kChunk].load(std::memory_order_acquire) : nullptr;
    return chunk != nullptr ? (*chunk)[number % kChunk].variable.load(std::memory_order_acquire)
                            : nullptr;
  }

 private:
  struct OperandSlot {
    std::atomic<Variable*> variable{nullptr};
    std::atomic<uint32_t> next{0}; // of the free ones
  };
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kChunk = 1 << 12;
  static constexpr uint32_t kChunks = 1 << 13;
  using Chunk = std::array<OperandSlot, kChunk>;

  // The list of free slots begins with a number; above it a count of its changes, by which a thread
  // that was away sees them.
  static uint32_t number_of(uint64_t free) { return static_cast<uint32_t>(free); }
  static uint64_t tagged(uint64_t before, uint32_t number) {
    return ((before >> 32) + 1) << 32 | number;
  }

  OperandSlot& slot(uint32_t number) {
    return (*chunks_[number / kChunk].load(std::memory_order_acquire))[number % kChunk];
  }
  OperandSlot& made(uint32_t number) {
    auto& place = chunks_[number / kChunk];
    if (place.load(std::memory_order_acquire) == nullptr) {
      auto chunk = std::make_unique<Chunk>();
      Chunk* none = nullptr;
      if (place.compare_exchange_strong(none, chunk.get(), std::memory_order_acq_rel)) {
        [[maybe_unused]] const auto* kept = chunk.release(); // for ever
      }
    }
    return slot(number);
  }

  const uint32_t most_;
  std::atomic<uint64_t> free_{kNone};
  std::atomic<uint32_t> used_{0};
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
};

// Of storages of up to 128 GiB, and of those above, which may live as long as nobody computes them.
struct Addresses {
  int byte_bits;
  Slots slots;
};

constexpr int kSmallBits = 37;

Addresses& small() {
  static auto* addresses = new Addresses{kSmallBits, Slots(uint32_t{1} << (62 - kSmallBits))};
  return *addresses;
}

Addresses& large() {
  static auto* addresses =
      new Addresses{kMostAddressBits, Slots(uint32_t{1} << (62 - kMostAddressBits))};
  return *addresses;
}

uint64_t bits_of(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

Addresses& addresses_of(uint64_t bits) {
  return (bits & kLarge) != 0 ? large() : small();
}

uint32_t number_of(uint64_t bits) {
  return static_cast<uint32_t>((bits & ~(kMark | kLarge)) >> addresses_of(bits).byte_bits);
}

} // namespace

void* take_addresses(Variable& variable, int64_t nbytes) {
  const bool is_small = nbytes >> kSmallBits == 0;
  auto& addresses = is_small ? small() : large();
  const uint64_t number = addresses.slots.take(variable);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a name that looks like an address and is none
  return reinterpret_cast<void*>(kMark | (is_small ? 0 : kLarge) | number << addresses.byte_bits);
}

void give_addresses(void* first) {
  addresses_of(bits_of(first)).slots.give(number_of(bits_of(first)));
}

bool is_address(const void* address) {
  return (bits_of(address) & kMark) != 0;
}

Place place_at(const void* address) {
  const uint64_t bits = bits_of(address);
  const auto& addresses = addresses_of(bits);
  const uint64_t byte = bits & ((uint64_t{1} << addresses.byte_bits) - 1);
  return {addresses.slots.find(number_of(bits)), static_cast<int64_t>(byte)};
}

} // namespace ftm
