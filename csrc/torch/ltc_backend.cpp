#include "torch/ltc_backend.h"

#include "graph/recorder_lock.h"
#include "ops/call_on_values.h"
#include "random/generator.h"
#include "compile/compile_threads.h"
#include "execute/launcher.h"
#include "program/program_table.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/strides.h>
#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/csrc/lazy/backend/lowering_context.h>
#include <torch/csrc/lazy/core/ir_builder.h>

namespace ftm {
namespace {

namespace lazy = torch::lazy;

// Turns the graph behind the collected results into a trace.
class TraceLowering final : public lazy::LoweringContext {
 public:
  using LoweringContext::LoweringContext;

  size_t AddResult(const lazy::Output& output) override {
    results_.push_back(output); // the caller owns the graph
    return results_.size() - 1;
  }
  void AddParameter(const lazy::Output&, size_t, const lazy::Shape&, const std::string&) override {
    TORCH_CHECK(
        false,
        "ftm determines a program's parameters itself: they are the values in memory that its "
        "calls "
        "read");
  }
  lazy::ComputationPtr Build() override {
    const RecorderLock lock(recorder_mutex());
    Trace trace = make_trace(collect_graph(results_));
    for (const auto& result : results_) {
      trace.result_types.push_back(static_cast<const TraceNode*>(result.node)->type(result.index));
    }
    return std::make_shared<Program>(std::move(trace));
  }

 private:
  std::vector<lazy::Output> results_;
};

struct FtmIrBuilder final : lazy::IrBuilder {
  NodePtr MakeDeviceData(const std::shared_ptr<lazy::BackendData>& data) const override {
    const auto& shape = data->shape();
    return data_value(
               std::static_pointer_cast<Buffer>(data),
               {shape.scalar_type(), c10::DimVector(shape.sizes())})
        .node;
  }
  NodePtr MakeScalar(const at::Scalar& value, const at::ScalarType& dtype) const override {
    return data_value(Buffer::from_cpu(at::scalar_tensor(value, dtype)), {dtype, {}}).node;
  }
  NodePtr MakeExpand(
      const Value& input, const std::vector<int64_t>& sizes, const bool&) const override {
    const RecorderLock lock(recorder_mutex());
    return broadcast(input, sizes).node;
  }
  NodePtr MakeCast(
      const Value& input, const at::ScalarType& dtype,
      const std::optional<at::ScalarType>&) const override {
    const RecorderLock lock(recorder_mutex());
    return converted(input, dtype).node;
  }
  NodePtr MakeTensorList(const lazy::OpList&) const override {
    unsupported("tensor lists are spread over a call's operands");
  }
  NodePtr MakeGeneric(
      const lazy::OpKind&, const lazy::OpList&, const lazy::Shape&, const size_t&,
      const lazy::hash_t&) const override {
    unsupported("calls are recorded from their schemas");
  }
  NodePtr MakeSizeNode(const Value&, size_t) const override { unsupported("shapes are static"); }
  NodePtr MakeSizeAdd(const Value&, const Value&) const override {
    unsupported("shapes are static");
  }
  NodePtr MakeSizeMul(const Value&, const Value&) const override {
    unsupported("shapes are static");
  }
  NodePtr MakeSizeDiv(const Value&, const Value&) const override {
    unsupported("shapes are static");
  }

 private:
  [[noreturn]] static void unsupported(const char* reason) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "device ftm has no such node: ", reason);
  }
};

class FtmBackend final : public lazy::BackendImplInterface {
 public:
  void PrepareToExit() const override {
    stop_compile_threads();
    stop_launcher(/*patience=*/std::chrono::seconds(10));
  }
  void SetRngSeed(size_t seed) const override {
    auto generator = default_generator();
    generator.set_current_seed(seed);
  }
  const lazy::IrBuilder* GetIrBuilder() const override {
    static const auto* builder = new FtmIrBuilder;
    return builder;
  }
  lazy::BackendDataPtr MakeComputationDataFromTensor(
      const at::Tensor& tensor, const lazy::Shape&, const lazy::BackendDevice&) const override {
    return Buffer::from_cpu(tensor);
  }
  lazy::BackendDataPtr MakeComputationDataFromScalar(
      const at::Scalar& scalar, const lazy::BackendDevice&) const override {
    return Buffer::from_cpu(at::scalar_tensor(scalar, scalar.type()));
  }
  lazy::BackendDataPtr CreateDataPlaceholder(
      const lazy::BackendDevice&, const lazy::Shape& shape) const override {
    return std::make_shared<Buffer>(shape.scalar_type(), shape.sizes());
  }
  lazy::BackendDataPtr GetComputationDataFromNode(const lazy::Node* node) const override {
    const auto& trace_node = static_cast<const TraceNode&>(*node);
    return trace_node.is_data ? static_cast<const DataNode&>(trace_node).buffer() : nullptr;
  }
  at::Tensor MakeTensorFromComputationData(
      const lazy::BackendDataPtr data, std::optional<at::ScalarType>) const override {
    const auto buffer = std::static_pointer_cast<Buffer>(data);
    wait_for(buffer);
    const auto& shape = buffer->shape();
    const auto strides = c10::contiguous_strides(shape.sizes());
    return Buffer::as_cpu(buffer, shape.scalar_type(), shape.sizes(), strides, 0).clone();
  }
  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, lazy::BackendDevice device,
      c10::ArrayRef<const lazy::Node*> post_order, lazy::Util::EmissionMap emitted) const override {
    return std::make_unique<TraceLowering>(name, device, post_order, emitted);
  }
  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, lazy::BackendDevice device) const override {
    return std::make_unique<TraceLowering>(name, device);
  }
  std::vector<std::string> GetCompilationDevices(
      const std::string& device, c10::ArrayRef<std::string>) const override {
    return {device};
  }
  std::vector<lazy::ComputationPtr> Compile(
      std::vector<lazy::ComputationPtr> computations) const override {
    return computations; // they are compiled at their first run
  }
  std::vector<lazy::BackendDataPtr> ExecuteComputation(
      lazy::ComputationPtr computation, c10::ArrayRef<lazy::BackendDataPtr> arguments,
      const lazy::BackendDevice&) const override {
    const auto program = std::static_pointer_cast<Program>(computation);
    auto job = std::make_shared<Job>();
    for (const auto& argument : arguments) {
      job->inputs.emplace_back(std::static_pointer_cast<Buffer>(argument));
    }
    std::vector<lazy::BackendDataPtr> results;
    for (const auto& type : program->trace().result_types) {
      job->outputs.push_back(std::make_shared<Buffer>(type.dtype, type.sizes));
      results.push_back(job->outputs.back());
    }
    enqueue(job);
    start(job, program);
    return results;
  }
  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override {
    return std::make_shared<lazy::BackendDeviceType>(static_cast<int8_t>(at::kPrivateUse1));
  }
  void SetDefaultDeviceType(int8_t) override {}
  int64_t GetDefaultDeviceOrdinal() const override { return 0; }
  void SetDefaultDeviceOrdinal(int64_t) override {}
  at::DeviceType EagerFallbackDeviceType() const override { return at::kCPU; }
  std::vector<lazy::BackendDevice> GetBackendDevices() const override { return {lazy_device()}; }
  lazy::BackendDevice GetBackendDevice(c10::Device) const override { return lazy_device(); }
  std::string GetComputationBackendText(const lazy::ComputationPtr computation) const override {
    return computation->to_string();
  }
};

} // namespace

void register_lazy_backend() {
  static auto* backend = new FtmBackend;
  static const lazy::BackendRegistrar registrar(backend);
}

} // namespace ftm
