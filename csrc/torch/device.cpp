#include "torch/device.h"

#include "execute/launcher.h"
#include "torch/storage_allocator.h"
#include "torch/device_guard.h"
#include "torch/device_hooks.h"
#include "torch/pinned_allocator.h"
#include "torch/ltc_backend.h"
#include "torch/ltc_executor.h"
#include "torch/profiler.h"

#include <c10/core/DeviceType.h>

namespace ftm {

void register_device() {
  if (!c10::is_privateuse1_backend_registered()) { // otherwise ftm_lazy has registered another name
                                                   // (FTM_DEVICE_NAME)
    c10::register_privateuse1_backend("ftm");
  }
  register_device_guard();
  register_allocator();
  register_host_allocator();
  register_hooks();
  register_profiler();
  register_lazy_executor();
  register_lazy_backend();
}

} // namespace ftm
