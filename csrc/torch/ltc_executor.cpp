#include "torch/ltc_executor.h"

#include "sync/cut_trace.h"

#include <torch/csrc/lazy/core/lazy_graph_executor.h>

namespace ftm {
namespace {

// Replaces LTC's graph hash (which does not distinguish inputs with equal shapes), its registry of
// live tensors (a lock and a map entry for each), and its scheduling (one program in flight).
class FtmExecutor final : public torch::lazy::LazyGraphExecutor {
 public:
  void RegisterTensor(std::shared_ptr<torch::lazy::LazyTensor::Data>) override {}
  void UnregisterTensor(torch::lazy::LazyTensor::Data*) override {}

  void SyncLiveTensorsGraph(
      const torch::lazy::BackendDevice*, c10::ArrayRef<std::string>, bool wait) override {
    sync(wait);
  }
  void MarkStep(const torch::lazy::BackendDevice&) override { sync(/*wait=*/false); }
};

} // namespace

void register_lazy_executor() {
  static auto* executor = new FtmExecutor;
  torch::lazy::LazyGraphExecutor::Register(executor);
}

} // namespace ftm
