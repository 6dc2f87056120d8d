// The device's memory pool. The emulated machine's DDR is host memory. Freed blocks are kept for
// reuse, since a training step requests the same sizes again and again. All functions are
// thread-safe.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ftm {

struct Block {
  void* data = nullptr;
  size_t capacity = 0; // bytes; at least the requested size
};

// Returns a 64-byte aligned block with arbitrary contents. Throws c10::OutOfMemoryError.
Block allocate_block(size_t bytes);
// Returns a block to the pool. A block without memory is ignored.
void free_block(Block block) noexcept;

// Returns the idle blocks to the system, and the memory that the C library keeps after `free`.
void empty_memory_pool();

// Count tensors' storages, which the statistics report as "allocated" memory. "Active" memory is
// the blocks of computed values and of running programs' temporaries.
void count_new_storage(size_t bytes) noexcept;
void count_freed_storage(size_t bytes) noexcept;

// Returns the statistics in PyTorch's terms. Each block is its own segment, so no segment is ever
// split.
c10::CachingDeviceAllocator::DeviceStats memory_statistics();

// A block, in the terms of PyTorch's memory snapshots.
struct Segment {
  void* address;
  size_t capacity; // bytes
  size_t requested; // bytes; 0 if the block is idle
};
// Returns all blocks, in no particular order.
std::vector<Segment> memory_segments();

// Throws c10::OutOfMemoryError if a single storage exceeds the memory limit. The sum of all
// storages may exceed it, since programs never store many of their values.
void check_storage(size_t nbytes);
// Returns the bytes of the blocks that hold values or that programs use.
size_t memory_in_use();
// Sets the fraction of the memory limit that this process may reserve: above 0, at most 1. Throws
// ValueError.
void set_memory_fraction(double fraction);
// Returns that fraction.
double memory_fraction();

// Reset the peaks, or the accumulated sums and event counts, of `memory_statistics`.
void reset_peak_memory();
void reset_accumulated_memory();

} // namespace ftm
