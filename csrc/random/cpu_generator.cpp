#include "random/cpu_generator.h"

#include <ATen/CPUGeneratorImpl.h>

namespace ftm {

CpuStream::CpuStream(
    const c10::OperatorHandle& op, torch::jit::Stack& stack, const RandomDraw& draw) {
  const uint64_t seed = draw.seed ^ draw.offset * 0x9e3779b97f4a7c15ULL;
  const auto& arguments = op.schema().arguments();
  const size_t base = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "generator") {
      stack[base + i] = at::detail::createCPUGenerator(seed);
      return;
    }
  }
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> guard(generator.mutex());
  saved_state_ = generator.get_state();
  generator.set_current_seed(seed);
}

CpuStream::~CpuStream() {
  if (saved_state_.defined()) {
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> guard(generator.mutex());
    generator.set_state(saved_state_);
  }
}

} // namespace ftm
