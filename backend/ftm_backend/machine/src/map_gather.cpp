// VGA: elements of a DDR buffer by index, in the middle of a map.
#include "checker.h"
#include "core_state.h"
#include "half.h"

#include <atomic>
#include <cstring>

namespace ftm {
namespace {

constexpr int64_t kBlock = 256;

template <class T>
void gather_as(uint8_t* to, const uint8_t* from, const uint64_t* places, int64_t n) {
  T* out = reinterpret_cast<T*>(to);
  const T* in = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) out[i] = in[places[i]];
}

void gather_block(
    const StripOp& op, uint8_t* to, const uint8_t* from, const uint64_t* places, int64_t n) {
  if (is_half(op.type)) {
    float* values = reinterpret_cast<float*>(to);
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
    for (int64_t i = 0; i < n; ++i)
      values[i] =
          op.type == Type::F16 ? f16_to_float(halves[places[i]]) : bf16_to_float(halves[places[i]]);
    return;
  }
  switch (type_bytes(op.type)) {
    case 1: return gather_as<uint8_t>(to, from, places, n);
    case 2: return gather_as<uint16_t>(to, from, places, n);
    case 4: return gather_as<uint32_t>(to, from, places, n);
    default: return gather_as<uint64_t>(to, from, places, n);
  }
}

// Gathers into memory of the caller.
void take_places(uint64_t* places, const int64_t* index, int64_t n) {
  std::memcpy(places, index, size_t(n) * 8);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

} // namespace

// Each index is read once, into local memory: another core may write it, the results may overlap
// it, and the value that was checked must be the value that is used.
void gather_elements(Core& core, const StripOp& op, uint8_t* to, const int64_t* index, int64_t n) {
  const uint64_t first = uint64_t(core.value({op.address, op.address_register})),
                 size = uint64_t(core.views[op.buffer].elements);
  const int64_t bytes = type_bytes(strip_type(op.type));
  uint64_t places[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = n - i < kBlock ? n - i : kBlock;
    take_places(places, index + i, count);
    bool outside = false;
    for (int64_t k = 0; k < count; ++k) {
      places[k] += first;
      outside |= places[k] >= size;
    }
    for (int64_t k = 0; outside && k < count; ++k)
      if (places[k] >= size)
        throw Fault(
            "gathers element " + std::to_string(int64_t(places[k])) + " of " +
            core.buffer_name(op.buffer) + " (index out of range)");
    if (core.checker) core.checker->gather_elements(op.buffer, places, count);
    gather_block(op, to + i * bytes, core.views[op.buffer].base, places, count);
  }
}

} // namespace ftm
