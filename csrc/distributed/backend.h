// torch.distributed's backend `ftm`. A carrier, the backend of CPU tensors (gloo), moves the data;
// a vendor's fabric would be another carrier. The collectives of all groups keep the order in which
// the program calls them, together with its other launches (execute/launcher.h).
#pragma once

#include "distributed/collective.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <memory>

namespace ftm {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Makes a carrier. Takes the GIL.
using MakeCarrier = std::function<BackendPtr(
    const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout)>;

struct GroupOptions final : c10d::Backend::Options {
  explicit GroupOptions(std::chrono::milliseconds timeout) : Options("ftm", timeout) {}
  GroupOptions(const GroupOptions&) = default;
};

// Finds out which ranks took part in a failed collective.
class FaultReports {
 public:
  FaultReports(const StorePtr& store, int rank, int size);
  // Reports this rank's failure of a collective, waits shortly for the others' reports, and returns
  // a text that names the ranks without one; "" if there are none.
  std::string missing(uint64_t sequence) const;

 private:
  StorePtr store_;
  int rank_, size_;
};

class GroupBackend final : public c10d::Backend {
 public:
  GroupBackend(
      const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout,
      MakeCarrier make_carrier);
  ~GroupBackend() override;

  const std::string getBackendName() const override { return "ftm"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  BackendPtr split(
      const StorePtr& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<Options>& options) override;
  void setSequenceNumberForGroup() override {} // starts at 0 on all ranks
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void eagerConnectSingleDevice(at::Device) override {} // connected by the constructor
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }
  void abort() override;
  void shutdown() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(
      std::vector<Tensors>& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(
      at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(
      std::vector<Tensors>& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(
      Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(
      Tensors& outputs, std::vector<Tensors>& inputs,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
      std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(
      Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int target, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

 private:
  // Adds to a collective the reference to its carrier, and counts it. Returns the description of
  // its failure, which names the processes that are missing. (The name of a message has the other
  // process.)
  Describe prepare(Collective& collective);
  WorkPtr enqueue(Collective collective);
  WorkPtr reduce_parts(
      std::string name, c10d::OpType type, Tensors outputs, Tensors inputs,
      const c10d::ReduceScatterOptions& options);

  BackendPtr carrier_;
  const MakeCarrier make_carrier_;
  c10::intrusive_ptr<GroupOptions> options_;
  std::shared_ptr<const FaultReports> reports_;
  std::atomic<uint64_t> sequence_{0}; // number of collectives so far
  bool is_shut_down_ = false;
  bool coalesces_ = false;
  std::vector<WorkPtr> coalesced_;
};

} // namespace ftm
