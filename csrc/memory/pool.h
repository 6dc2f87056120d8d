// Device memory: the emulated machine's DDR is host memory, pooled, because a training step asks for
// the same sizes again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ftm {

struct Block {
  void* data = nullptr;
  size_t capacity = 0; // bytes; at least what was asked for
};

// 64-byte aligned; contents are arbitrary. Throws c10::OutOfMemoryError.
Block take_memory(size_t bytes);
void give_memory(Block block) noexcept;

// Returns pooled blocks that nobody uses to the system, and what the C library keeps of memory that was freed.
void empty_memory_pool();

// Accounts for a live tensor storage (what a user calls allocated memory).
void count_storage(int64_t bytes) noexcept;

std::map<std::string, int64_t> memory_statistics();
void reset_peak_memory();
void reset_accumulated_memory();

// Taken around fork, so that the child finds the pool in order.
void lock_memory();
void unlock_memory();

} // namespace ftm
