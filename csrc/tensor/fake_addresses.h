// What a storage's data pointer says: an address above what a user process can map (a kernel that
// is not ours faults on the first access). Every byte of a storage has one of its own, from which
// the storage and the byte can be told: PyTorch slices storages by address, and wraps an address in
// a storage of its own to write it to a file.
#pragma once

#include <cstdint>

namespace ftm {

class Variable;

constexpr int kMostAddressBits = 47; // of a storage's size

// Addresses for `nbytes`, which are more than 0 and fit kMostAddressBits. Throws OutOfMemoryError
// where too many storages live.
void* take_addresses(Variable& variable, int64_t nbytes);
void give_addresses(void* first);

struct Place {
  Variable* variable; // null: it lives no more
  int64_t byte;
};

bool is_address(const void* address);
// Of an address.
Place place_at(const void* address);

} // namespace ftm
