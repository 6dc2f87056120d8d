#include "torch/device_index.h"

namespace ftm {

c10::Device only_device() {
  return {c10::kPrivateUse1, 0};
}

void check_device(c10::DeviceIndex index) {
  TORCH_CHECK(
      index == 0 || index == -1, "invalid device ordinal ftm:", static_cast<int>(index),
      ": there is one device, ftm:0");
}

} // namespace ftm
