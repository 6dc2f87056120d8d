#include "dispatch/cpu_fallback.h"

#include "support/capture_mode.h"
#include "support/counters.h"
#include "support/event_log.h"
#include "support/python_location.h"
#include "support/strict_mode.h"
#include "random/cpu_generator.h"
#include "random/generator.h"

#include <ATen/native/CPUFallback.h>

namespace ftm {

void count_fallback(const Op& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !capturing, op.called_name, " is not compiled for device ftm (for these dtypes)");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(), op.called_name,
      " is not compiled for device ftm, and FTM_STRICT forbids to run it on ",
      "the CPU. Unset FTM_STRICT to let it fall back, or compute it on the CPU yourself.");
  auto& count = counter("fallback::" + op.called_name);
  if (count.fetch_add(1) == 0) {
    TORCH_WARN(
        op.called_name,
        " is not compiled for device ftm (for these dtypes): it runs on the CPU. This ",
        "cuts the program in two and copies its operands. (Said once; ftm_lazy.metrics counts.)");
  }
}

void run_fallback(const Op& op, torch::jit::Stack* stack) {
  count_fallback(op);
  LoggedScope logged(HostEventKind::fallback, op.called_name.c_str());
  if (logged.is_logged()) {
    const auto line = python_line(this_thread());
    logged.set_line(line ? *line : "");
  }
  std::optional<CpuStream> stream;
  if (op.random) {
    const auto& generator = op.generator < 0
                                ? c10::IValue()
                                : torch::jit::peek(*stack, op.generator, op.arguments.size());
    stream.emplace(op.handle, *stack, next_random_draw(generator));
  }
  at::native::cpu_fallback(op.handle, stack, /*error_on_views=*/true);
}

} // namespace ftm
