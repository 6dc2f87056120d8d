// The memory pool of each device. The emulated machine's DDR is host memory; each device has an
// equal share. Freed blocks are kept for reuse, since a training step requests the same sizes again
// and again. All functions are thread-safe.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ftm {

struct Block {
  void* data = nullptr;
  size_t capacity = 0; // bytes; at least the requested size
  c10::DeviceIndex device = 0; // whose pool it is from
};

// Returns a 64-byte aligned block with arbitrary contents. Throws c10::OutOfMemoryError.
Block allocate_block(size_t bytes, c10::DeviceIndex device);
// Returns a block to its pool. A block without memory is ignored.
void free_block(Block block) noexcept;

// Returns the idle blocks of all devices to the system, and the memory that the C library keeps
// after `free`.
void empty_memory_pool();

// Count tensors' storages, which the statistics report as "allocated" memory. "Active" memory is
// the blocks of computed values and of running programs' temporaries.
void count_new_storage(c10::DeviceIndex device, size_t bytes) noexcept;
void count_freed_storage(c10::DeviceIndex device, size_t bytes) noexcept;

// Returns a device's statistics in PyTorch's terms. Each block is its own segment, so no segment is
// ever split.
c10::CachingDeviceAllocator::DeviceStats memory_statistics(c10::DeviceIndex device);

// A block, in the terms of PyTorch's memory snapshots.
struct Segment {
  void* address;
  size_t capacity; // bytes
  size_t requested; // bytes; 0 if the block is idle
  c10::DeviceIndex device;
};
// Returns the blocks of all devices, in no particular order.
std::vector<Segment> memory_segments();

// Returns the memory of each device in bytes: an equal share of the limit.
size_t device_memory();
// Throws c10::OutOfMemoryError if a single storage exceeds the device's memory. The sum of all
// storages may exceed it, since programs never store many of their values.
void check_storage(c10::DeviceIndex device, size_t nbytes);
// Returns the bytes of the device's blocks that hold values or that programs use.
size_t memory_in_use(c10::DeviceIndex device);
// Sets the fraction of the device's memory that this process may reserve: above 0, at most 1.
// Throws ValueError.
void set_memory_fraction(double fraction, c10::DeviceIndex device);
// Returns that fraction.
double memory_fraction(c10::DeviceIndex device);

// Reset the peaks, or the accumulated sums and event counts, of `memory_statistics`.
void reset_peak_memory(c10::DeviceIndex device);
void reset_accumulated_memory(c10::DeviceIndex device);

} // namespace ftm
