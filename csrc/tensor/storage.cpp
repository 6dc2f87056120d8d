#include "tensor/storage.h"

#include "ops/call_on_values.h"
#include "support/device_index.h"
#include "tensor/storage_variable.h"
#include "tensor/tensor_access.h"
#include "tensor/view_access.h"

namespace ftm {

c10::Storage make_storage(int64_t nbytes) {
  return c10::Storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), nbytes, make_data_ptr(nbytes),
          c10::GetAllocator(c10::kPrivateUse1),
          /*resizable=*/true));
}

void resize_storage(c10::StorageImpl& storage, size_t nbytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  Variable& old = variable_of(storage);
  if (nbytes == static_cast<size_t>(old.nbytes())) {
    return;
  }
  Variable* created = nullptr;
  const DeviceScope scope(storage.device().index());
  c10::DataPtr pointer = make_data_ptr(static_cast<int64_t>(nbytes), &created);
  {
    const RecorderLock lock(recorder_mutex());
    if (old.value().node && nbytes != 0) {
      auto dtype = type_of(old.value()).dtype;
      if (nbytes % c10::elementSize(dtype) != 0 || old.nbytes() % c10::elementSize(dtype) != 0) {
        dtype = at::kByte;
      }
      const auto itemsize = static_cast<int64_t>(c10::elementSize(dtype));
      const int64_t length = static_cast<int64_t>(nbytes) / itemsize;
      const int64_t kept = std::min(length, old.nbytes() / itemsize);
      Value content = strided_view(whole_value(old, dtype), {kept}, {1}, 0);
      if (kept < length) {
        content = updated(zeros({dtype, {length}}), content, {kept}, {1}, 0);
      }
      created->set_value(std::move(content));
    }
  }
  storage.set_data_ptr_noswap(std::move(pointer));
  storage.set_nbytes(nbytes);
}

} // namespace ftm
