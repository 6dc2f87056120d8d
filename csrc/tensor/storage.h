// Storages of device ftm.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/Storage.h>

namespace ftm {

// A new one; `nbytes` is what a user sees.
c10::Storage make_storage(int64_t nbytes);

// The storage's elements survive a change of its size, as far as they fit. Not under the recorder's
// lock.
void resize_storage(c10::StorageImpl& storage, size_t nbytes);

} // namespace ftm
