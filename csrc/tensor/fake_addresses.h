// Data pointers of storages. They are fake addresses, above what a user process can map, so foreign
// code that dereferences one faults at once. Each byte of a storage has its own address, from which
// the storage and the byte can be recovered. PyTorch needs that: it slices storages by address, and
// wraps an address in another storage to write it to a file. All functions are thread-safe.
#pragma once

#include <cstdint>

namespace ftm {

class Variable;

constexpr int kMaxAddressBits = 47; // a storage has fewer than 2^47 bytes

// Returns the first of `nbytes` addresses for a variable. `nbytes` is above 0 and below
// 2^kMaxAddressBits. Throws OutOfMemoryError if too many storages are alive.
void* allocate_fake_address(Variable& variable, int64_t nbytes);
// Takes the first address back.
void release_fake_address(void* first);

// The byte of a storage that an address stands for.
struct ByteLocation {
  Variable* variable; // null if the storage was freed
  int64_t byte;
};

// Whether a pointer is a fake address.
bool is_fake_address(const void* address);
// Decodes a fake address.
ByteLocation resolve_fake_address(const void* address);

} // namespace ftm
