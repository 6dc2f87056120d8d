#include "torch/profile_bindings.h"

#include "graph/recorder_lock.h"
#include "graph/source_location.h"
#include "support/gil.h"
#include "tensor/tensor_access.h"
#include "torch/module_calls.h"
#include "torch/profile_events.h"

#include <torch/csrc/utils/pybind.h>

#include <sys/syscall.h>
#include <unistd.h>

namespace py = pybind11;

namespace ftm {
namespace {

const char* name_of(HostEventKind kind) {
  switch (kind) {
    case HostEventKind::launch: return "launch";
    case HostEventKind::wait: return "wait";
    case HostEventKind::compile: return "compile";
    case HostEventKind::copy_to_device: return "copy_to_device";
    case HostEventKind::copy_to_host: return "copy_to_host";
    case HostEventKind::fallback: return "fallback";
    case HostEventKind::collective: return "collective";
    case HostEventKind::step: return "step";
  }
  return "";
}

HostEventKind kind_of(const std::string& name) {
  for (int k = 0; k <= static_cast<int>(HostEventKind::step); ++k) {
    if (name == name_of(static_cast<HostEventKind>(k))) {
      return static_cast<HostEventKind>(k);
    }
  }
  TORCH_CHECK_VALUE(false, "there is no kind of event '", name, "'");
}

py::tuple as_python(const CallOriginPtr& origin) {
  if (!origin) {
    return py::make_tuple("", "", false);
  }
  const CallOrigin& user = origin->forward ? *origin->forward : *origin;
  return py::make_tuple(
      user.module ? *user.module : "", user.line ? *user.line : "", origin->is_backward);
}

// The origin of each result of a run: (module, line, is_backward).
py::list result_origins(const ProgramRun& run) {
  py::list found;
  if (!run.program) {
    return found;
  }
  const Trace& trace = run.program->trace();
  std::vector<size_t> call_of; // by number of the value
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    call_of.insert(call_of.end(), trace.calls[i].spec->results.size(), i);
  }
  for (const auto number : trace.results) {
    found.append(as_python(
        number.is_parameter() ? nullptr
                              : run.origin.of_call(call_of[static_cast<size_t>(number.index())])));
  }
  return found;
}

// See ftm_lazy/_C.pyi.
py::tuple stop_for_python() {
  Profile profile;
  {
    const GilRelease unlocked;
    profile = stop_profile();
  }
  py::list runs, kernels, cores, host, memory;
  for (const auto& run : profile.runs) {
    runs.append(
        py::make_tuple(
            run.number, run.program ? run.program->trace().calls.size() : 0, run.begin, run.end,
            run.origin.launched_at ? *run.origin.launched_at : "", !run.spans.empty(),
            result_origins(run)));
  }
  for (const auto& kernel : profile.kernels) {
    kernels.append(
        py::make_tuple(
            kernel.name, kernel.module, kernel.ops, kernel.line, kernel.shape, kernel.is_backward,
            kernel.run, kernel.kernel, kernel.begin, kernel.end, kernel.elapsed, kernel.busy,
            kernel.dma_bytes, kernel.mm_flops, kernel.map_operations));
  }
  for (const auto& span : profile.cores) {
    cores.append(py::make_tuple(span.kernel, span.core, span.begin, span.end));
  }
  for (const auto& event : profile.log.host) {
    host.append(
        py::make_tuple(
            name_of(event.kind), event.name, event.line, event.begin, event.end, event.thread,
            event.bytes));
  }
  for (const auto& event : profile.log.memory) {
    memory.append(py::make_tuple(event.time, event.address, event.bytes, event.run, event.result));
  }
  return py::make_tuple(runs, kernels, cores, host, memory);
}

// Returns the address of the block that holds a tensor's storage, or 0 if it has none yet.
uintptr_t block_address(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone() || tensor.numel() == 0) {
    return 0;
  }
  const RecorderLock lock(recorder_mutex());
  const Value& value = variable_of(*tensor.unsafeGetTensorImpl()).value();
  if (!value.node || !trace_node(value).is_data) {
    return 0;
  }
  return reinterpret_cast<uintptr_t>(
      static_cast<const DataNode&>(trace_node(value)).buffer()->data());
}

void add_event(
    const std::string& kind, const std::string& name, const std::string& line, int64_t begin,
    int64_t end) {
  add_host_event(
      {kind_of(kind), name, line, begin, end, static_cast<uint64_t>(syscall(SYS_gettid)), 0});
}

} // namespace

void bind_profile(py::module_& m) {
  m.def("_start_profile", torch::wrap_pybind_function([] {
          const GilRelease unlocked;
          start_profile();
        }));
  m.def("_stop_profile", torch::wrap_pybind_function(&stop_for_python));
  m.def("_is_profiling", &is_profiling);
  m.def(
      "_add_event", torch::wrap_pybind_function(&add_event), py::arg("kind"), py::arg("name"),
      py::arg("line"), py::arg("begin"), py::arg("end"));
  m.def("_block_address", torch::wrap_pybind_function(&block_address), py::arg("tensor"));
  m.def("_follow_modules", torch::wrap_pybind_function(&follow_modules));
  m.def("_push_module", &push_module);
  m.def("_pop_module", &pop_module);
}

} // namespace ftm
