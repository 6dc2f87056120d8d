// Device memory: the emulated machine's DDR is host memory, pooled, because a training step asks
// for the same sizes again and again.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ftm {

struct Block {
  void* data = nullptr;
  size_t capacity = 0; // bytes; at least what was asked for
};

// 64-byte aligned; contents are arbitrary. Throws c10::OutOfMemoryError.
Block allocate_block(size_t bytes);
void free_block(Block block) noexcept;

// Returns pooled blocks that nobody uses to the system, and what the C library keeps of memory that
// was freed.
void empty_memory_pool();

// Counts a tensor's storage: "allocated" memory in the statistics. "Active" memory is the blocks
// behind computed values and the temporaries of running programs.
void count_new_storage(size_t bytes) noexcept;
void count_freed_storage(size_t bytes) noexcept;

// Each block is a segment of its own, so no memory is ever split off.
c10::CachingDeviceAllocator::DeviceStats memory_statistics();

struct Segment {
  void* address;
  size_t capacity; // bytes
  size_t requested; // bytes; 0 while it is idle
};
std::vector<Segment> memory_segments();

// Throws c10::OutOfMemoryError for a storage that exceeds the memory. What all storages have
// together may exceed it: many are of values that a program never stores.
void check_storage(size_t nbytes);
// Bytes of blocks that hold values or that programs work in.
size_t memory_in_use();
// The share of the memory's limit that this process may reserve, over 0 and at most 1. Throws
// ValueError.
void set_memory_fraction(double fraction);
double memory_fraction();

void reset_peak_memory();
void reset_accumulated_memory();

// Taken around fork, so that the child finds the pool in order.
void lock_memory();
void unlock_memory();

} // namespace ftm
