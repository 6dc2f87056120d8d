#include "torch/autograd_shutdown.h"

#include <ATen/ops/zeros.h>

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

namespace ftm {
namespace {

constexpr auto kPatience = std::chrono::seconds(2); // a daemon's backward may be long

} // namespace

void wait_for_autograd() {
  const auto over = std::make_shared<std::promise<void>>();
  auto end = over->get_future();
  // A backward behind that one ends later, and one of a thread without Python begins with no
  // objects of Python.
  const auto run_backward = [over] {
    try {
      at::zeros({}, at::TensorOptions(c10::DeviceType::PrivateUse1))
          .requires_grad_()
          .neg()
          .backward();
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): the device failed, as whoever
                                      // used it was told
    }
    over->set_value_at_thread_exit(); // when it records no more, either
  };
  try {
    std::thread(run_backward).detach();
  } catch (const std::system_error&) { // no memory for a thread: the process ends without waiting
    return;
  }
  end.wait_for(kPatience);
}

} // namespace ftm
