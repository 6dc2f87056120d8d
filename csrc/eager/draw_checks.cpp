#include "eager/draw_checks.h"

#include "eager/trial_calls.h"
#include "random/cpu_stream.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/zeros.h>

namespace ftm {
namespace {

// Calls the op on the CPU for its checks, on these stand-ins of the arguments.
void draw_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const CpuStream stream(op, stack, {0, 0});
  op.callBoxed(stack);
}

at::Tensor one_on_cpu(const at::Tensor& tensor) {
  return at::zeros({1}, tensor.options().device(at::kCPU));
}

} // namespace

void check_draw(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& name = op.handle.schema().name();
  if (name == "aten::multinomial") {
    const auto categories = arguments[0].toTensor().size(-1);
    const auto count = arguments[1].toInt();
    TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
    TORCH_CHECK(
        arguments[2].toBool() || count <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  } else if (name == "aten::native_dropout") {
    const double keep = 1 - arguments[1].toDouble();
    const bool trains = arguments[2].isNone() || arguments[2].toBool();
    TORCH_CHECK(!trains || (keep >= 0 && keep <= 1), "bernoulli_ expects p to be in [0, 1], but got p=", keep);
  } else if (name == "aten::randperm" && !op.written.empty()) {
    const auto& out = arguments[op.written[0]].toTensor();
    at::native::check_supported_max_int_with_precision(arguments[0].toInt(), one_on_cpu(out));
  } else if (name == "aten::normal" && !op.written.empty()) {
    draw_on_cpu(op.handle, with_tensors_replaced(arguments, cpu_like, c10::kCPU)); // it broadcasts, by rules of its own
  }
  if (name.back() == '_' || op.handle.operator_name().overload_name == "p") {
    draw_on_cpu(op.handle, with_tensors_replaced(arguments, one_on_cpu, c10::kCPU));
  }
}

} // namespace ftm
