// Device ftm in torch.profiler: a session turns the events of a profile (torch/profile_events.h)
// into kineto's activities.
#include "torch/profiler.h"

#include "graph/source_location.h"
#include "program/machine.h"
#include "support/gil.h"
#include "support/torch_version.h"
#include "sync/cut_trace.h"
#include "torch/profile_events.h"

#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <torch/csrc/profiler/stubs/base.h>
#include <torch/csrc/utils/pybind.h>

#include <unistd.h>

namespace py = pybind11;

namespace ftm {

// A number in the details of an activity.
struct Number { uint64_t value; };

} // namespace ftm

// Kineto formats numbers with a library that PyTorch does not export, so add them as text.
template <>
void libkineto::GenericTraceActivity::addMetadata<ftm::Number>(
    const std::string& key, const ftm::Number& number) {
  metadataMap_.emplace(key, FTM_UNQUOTED_METADATA(std::to_string(number.value)));
}

namespace ftm {
namespace {

using Activity = libkineto::GenericTraceActivity;
using libkineto::ActivityType;

constexpr int32_t kDevice = 0;
constexpr int32_t kKernels = 0; // row of the kernels, one after the other
constexpr int32_t kRanges = 1; // row of record_function ranges
constexpr int32_t kFirstCore = 2; // rows of the cores

constexpr const char* kHooks = "ftm_lazy.profiler.module_hooks";

// Imports the Python part before a session starts. PyTorch's tracer of Python functions keeps
// pointers to their code, and that of a module's body is freed after the import.
void import_hooks() {
  const GilAcquire gil;
  const auto hooks = py::reinterpret_steal<py::object>(PyImport_ImportModule(kHooks));
  if (!hooks) {
    PyErr_Clear(); // `follow_modules` warns
  }
}

// Lets Python follow modules while a session records, through ftm_lazy.profiler.
void follow_modules(bool on) {
  const GilAcquire gil;
  try {
    py::module_::import(kHooks).attr(on ? "install" : "remove")();
  } catch (py::error_already_set& error) {
    TORCH_WARN("profiles have no names of modules: ", error.what());
  }
}

class ProfileSession final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    try {
      start_profile();
      started_ = true;
      follow_modules(true);
    } catch (const std::exception& error) {
      errors_.emplace_back(error.what());
    }
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    if (std::exchange(started_, false)) {
      follow_modules(false);
      try {
        profile_ = stop_profile();
      } catch (const std::exception& error) {
        errors_.emplace_back(error.what()); // also raised where a result is read
      }
    }
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(
      libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
      int64_t) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->gpuOpCount = 0;
    add_kernels(linked);
    add_ranges(linked);
    add_cores();
    add_host_events();
    for (const auto& activity : buffer_->activities) {
      logger.handleGenericActivity(*activity);
    }
    status_ = libkineto::TraceStatus::READY;
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{kDevice, libkineto::kExceedMaxPid, "ftm", "ftm 0"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows{
        {kKernels, kKernels, kDevice, "kernels"}, {kRanges, kRanges, kDevice, "ranges"}};
    for (int32_t core = 0; machine_is_open() && core < machine_cores(); ++core) {
      rows.push_back(
          {kFirstCore + core, kFirstCore + core, kDevice, "core " + std::to_string(core)});
    }
    return rows;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override { push_correlation(id); }
  void popCorrelationId() override { pop_correlation(); }
  void pushUserCorrelationId(uint64_t id) override { push_range(id); }
  void popUserCorrelationId() override { pop_range(); }

 private:
  Activity& add(
      ActivityType type, const std::string& name, int64_t begin, int64_t end, int32_t row) {
    buffer_->emplace_activity(buffer_->span, type, name);
    Activity& activity = *buffer_->activities.back();
    activity.startTime = begin;
    activity.endTime = end;
    activity.device = kDevice;
    activity.resource = row;
    return activity;
  }

  void add_kernels(const libkineto::getLinkedActivityCallback& linked) {
    for (const auto& kernel : profile_.kernels) {
      auto& activity =
          add(ActivityType::CONCURRENT_KERNEL, kernel.name, kernel.begin, kernel.end, kKernels);
      activity.id = static_cast<int32_t>(kernel.correlation);
      activity.linked =
          kernel.correlation == 0 ? nullptr : linked(static_cast<int32_t>(kernel.correlation));
      activity.addMetadata("stream", Number{kKernels});
      activity.addMetadata("correlation", Number{kernel.correlation});
      activity.addMetadata("program", Number{profile_.runs[kernel.run].number});
      activity.addMetadata("kernel", Number{static_cast<uint64_t>(kernel.kernel)});
      activity.addMetadataQuoted("module", kernel.module);
      activity.addMetadataQuoted("line", kernel.line);
      activity.addMetadataQuoted("result", kernel.shape);
      activity.addMetadata("bytes", Number{kernel.dma_bytes});
      activity.addMetadata("flops", Number{kernel.mm_flops + kernel.map_operations});
      ++buffer_->gpuOpCount;
    }
    // A program that has no spans of kernels, because it ran op by op on the CPU.
    for (const auto& run : profile_.runs) {
      if (run.spans.empty()) {
        const size_t calls = run.program ? run.program->trace().calls.size() : 0;
        add(ActivityType::CONCURRENT_KERNEL,
            "ftm program of " + std::to_string(calls) + " operations", run.begin, run.end,
            kKernels);
        ++buffer_->gpuOpCount;
      }
    }
  }

  // Shows each range of the host over the kernels that were recorded in it.
  void add_ranges(const libkineto::getLinkedActivityCallback& linked) {
    const KernelEvent* first = nullptr;
    const KernelEvent* last = nullptr;
    const auto finish = [&] {
      const auto* range = first == nullptr ? nullptr : linked(static_cast<int32_t>(first->range));
      if (range != nullptr) {
        add(ActivityType::GPU_USER_ANNOTATION, range->name(), first->begin, last->end, kRanges);
      }
    };
    for (const auto& kernel : profile_.kernels) {
      if (first == nullptr || kernel.range != first->range || kernel.run != first->run) {
        finish();
        first = kernel.range == 0 ? nullptr : &kernel;
      }
      last = &kernel;
    }
    finish();
  }

  // Annotations do not count as the device's time, which the row of kernels has already.
  void add_cores() {
    for (const auto& span : profile_.cores) {
      if (span.kernel < 0) {
        continue; // a gap in the row shows that the core waits
      }
      add(ActivityType::GPU_USER_ANNOTATION, profile_.kernels[span.kernel].name, span.begin,
          span.end, kFirstCore + span.core);
    }
  }

  void add_host_events() {
    for (const auto& event : profile_.log.host) {
      const bool compiles = event.kind == HostEventKind::compile;
      auto& activity =
          add(compiles ? ActivityType::OVERHEAD : ActivityType::PRIVATEUSE1_RUNTIME,
              "ftm " + event.name, event.begin, event.end, static_cast<int32_t>(event.thread));
      activity.device = getpid();
      activity.threadId = static_cast<int32_t>(event.thread);
      activity.addMetadataQuoted("line", event.line);
      if (event.bytes != 0) {
        activity.addMetadata("bytes", Number{static_cast<uint64_t>(event.bytes)});
      }
    }
  }

  bool started_ = false;
  Profile profile_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<std::string> errors_;
};

class DeviceProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "ftm";
    return name;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types = {
        ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_USER_ANNOTATION,
        ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::OVERHEAD};
    return types;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config&) override {
    if (types.count(ActivityType::CONCURRENT_KERNEL) == 0) {
      return nullptr;
    }
    import_hooks();
    return std::make_unique<ProfileSession>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& types,
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
      *cpu_ns = nanoseconds_now();
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
      [] { return std::make_unique<DeviceProfiler>(); });
}

} // namespace ftm
