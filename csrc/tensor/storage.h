// Storages of device ftm.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/Storage.h>

namespace ftm {

// Makes a storage of `nbytes` bytes without content. Throws c10::OutOfMemoryError if it exceeds the
// device's memory.
c10::Storage make_storage(int64_t nbytes);

// Changes a storage's size. Its elements are kept up to the new size; new ones are zero. Must not
// be called under the recorder's lock.
void resize_storage(c10::StorageImpl& storage, size_t nbytes);

} // namespace ftm
