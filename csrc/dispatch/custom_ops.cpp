// Ops of libraries other than ATen (torch.library). An op with a record of its own is recorded. A
// composite kernel is called, and the ops that it calls are recorded. Every other op must have a
// CPU kernel, and runs on the CPU like an ATen op that is not compiled.
#include "dispatch/custom_ops.h"

#include "dispatch/record.h"

#include <torch/library.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace ftm {
namespace {

void run_on_cpu(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const auto& name = handle.operator_name();
  TORCH_CHECK_NOT_IMPLEMENTED(
      name.name.rfind("aten::", 0) != 0 && handle.hasKernelForDispatchKey(c10::DispatchKey::CPU),
      "Could not run '", name,
      "' with arguments from the 'ftm' backend: it has no kernel for device ftm, and none ",
      "for the CPU to fall back to.");
  record(
      op_named(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name),
      stack);
}

} // namespace

void record_library_op(const std::string& name) {
  static std::mutex mutex;
  static auto* registered = new std::unordered_set<std::string>;
  // A kernel is unregistered when its Library object is destroyed, so these never are.
  static auto* libraries = new std::unordered_map<std::string, std::unique_ptr<torch::Library>>;
  const std::lock_guard<std::mutex> guard(mutex);
  if (!registered->insert(name).second) {
    return;
  }
  const auto space = name.substr(0, name.find("::"));
  auto& library = (*libraries)[space];
  if (!library) {
    library = std::make_unique<torch::Library>(
        torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  }
  library->impl(
      name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RecordKernel>(name)));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

} // namespace ftm
