#include "torch/profiler.h"

#include "sync/cut_trace.h"
#include "execute/run_log.h"

#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

namespace ftm {
namespace {

class ProgramSession final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    finish_runs(); // earlier calls are not part of the session
    start_run_log();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    finish_runs();
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->gpuOpCount = 0;
    int32_t number = 0;
    for (auto& run : stop_run_log()) {
      trace_->emplace_activity(trace_->span, libkineto::ActivityType::CONCURRENT_KERNEL, run.name);
      auto& activity = *trace_->activities.back();
      activity.startTime = run.begin;
      activity.endTime = run.end;
      activity.id = ++number;
      activity.device = 0;
      activity.resource = 0; // the only stream
      ++trace_->gpuOpCount;
    }
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return errors_; }
  void processTrace(libkineto::ActivityLogger& logger) override {
    if (trace_) {
      for (const auto& activity : trace_->activities) {
        logger.handleGenericActivity(*activity);
      }
    }
    status_ = libkineto::TraceStatus::READY;
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return {}; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(trace_); }

 private:
  void finish_runs() {
    try {
      sync(/*wait=*/true);
    } catch (const std::exception& error) {
      errors_.emplace_back(error.what()); // also raised where a result is read
    }
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
  std::vector<std::string> errors_;
};

class ProgramProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "ftm";
    return name;
  }
  const std::set<libkineto::ActivityType>& availableActivities() const override {
    static const std::set<libkineto::ActivityType> types = {
        libkineto::ActivityType::CONCURRENT_KERNEL};
    return types;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<libkineto::ActivityType>& types, const libkineto::Config&) override {
    if (types.count(libkineto::ActivityType::CONCURRENT_KERNEL) == 0) {
      return nullptr;
    }
    return std::make_unique<ProgramSession>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<libkineto::ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }
};

// Events that autograd's profiler sets around each call (use_device="ftm"). A recorded call has no
// separate device time, so the time between events is 0.
struct ProfilerEvents final : torch::profiler::impl::ProfilerStubs {
  void record(
      c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
      int64_t* cpu_ns) const override {
    if (device != nullptr) {
      *device = 0;
    }
    *event = std::make_shared<int>(0);
    if (cpu_ns != nullptr) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      *cpu_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    }
  }
  float elapsed(
      const torch::profiler::impl::ProfilerVoidEventStub*,
      const torch::profiler::impl::ProfilerVoidEventStub*) const override {
    return 0;
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override { op(0); }
  void synchronize() const override { sync(/*wait=*/true); }
};

} // namespace

void register_profiler() {
  static ProfilerEvents events;
  torch::profiler::impl::registerPrivateUse1Methods(&events);
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<ProgramProfiler>(); });
}

} // namespace ftm
