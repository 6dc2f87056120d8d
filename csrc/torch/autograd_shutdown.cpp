#include "torch/autograd_shutdown.h"

#include <ATen/ops/zeros.h>

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

namespace ftm {
namespace {

constexpr auto kMaxWait = std::chrono::seconds(2); // a daemon thread's backward may take long

} // namespace

void wait_for_autograd() {
  const auto done = std::make_shared<std::promise<void>>();
  auto future = done->get_future();
  // Backward passes run one after the other, so this one ends after all earlier ones. It begins on
  // a thread without Python, so it holds no Python objects.
  const auto run_backward = [done] {
    try {
      at::zeros({}, at::TensorOptions(c10::DeviceType::PrivateUse1))
          .requires_grad_()
          .neg()
          .backward();
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): reported to the device's user
    }
    done->set_value_at_thread_exit(); // after the thread's recording has ended too
  };
  try {
    std::thread(run_backward).detach();
  } catch (const std::system_error&) { // no memory for a thread: end without waiting
    return;
  }
  future.wait_for(kMaxWait);
}

} // namespace ftm
