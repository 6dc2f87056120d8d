// The Python module `ftm_lazy._C`.
#include "capture/bindings.h"
#include "distributed/bindings.h"
#include "graph/loop_detector.h"
#include "graph/source_location.h"
#include "kernels/copy.h"
#include "layouts/sparse_fallback.h"
#include "memory/memory_pool.h"
#include "ops/compiled_ops.h"
#include "ops/op_info.h"
#include "ops/op_traits.h"
#include "support/counters.h"
#include "support/device_index.h"
#include "support/shutdown.h"
#include "support/metrics.h"
#include "support/runtime.h"
#include "support/gil.h"
#include "support/strict_mode.h"
#include "random/generator.h"
#include "dispatch/cpu_fallback.h"
#include "dispatch/custom_ops.h"
#include "dispatch/register_ops.h"
#include "compile/compile_threads.h"
#include "program/compile_client.h"
#include "program/recorded_trace.h"
#include "sync/cut_trace.h"
#include "execute/first_run_observer.h"
#include "execute/launcher.h"
#include "execute/launch_count.h"
#include "program/machine.h"
#include "program/program_table.h"
#include "sync/optimizer_step.h"
#include "tensor/storage_variable.h"
#include "tensor/tensor_access.h"
#include "torch/autograd_shutdown.h"
#include "torch/device.h"
#include "torch/profile_bindings.h"
#include "torch/backward_on_calling_thread.h"

#include <ATen/DLConvertor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <tuple>

namespace py = pybind11;

namespace ftm {
namespace {

void set_traits(const std::vector<TraitRow>& rows) {
  set_op_traits(rows);
  clear_call_specs();
  register_annotated_ops();
}

void set_native_ops(const py::dict& native_ops) {
  std::vector<std::pair<std::string, std::vector<std::string>>> table;
  for (const auto& item : native_ops) {
    table.emplace_back(
        item.first.cast<std::string>(), item.second.cast<std::vector<std::string>>());
  }
  for (const auto& [name, dtypes] : table) {
    if (name != "*" && name.rfind("aten::", 0) != 0) {
      record_library_op(name);
    }
  }
  set_compiled_ops(table);
}

void init(
    const py::dict& native_ops, const std::string& machine_library, int cores, bool checked,
    uint64_t instruction_limit, const py::object& compile) {
  set_native_ops(native_ops);
  set_checked(checked);
  set_compile_function(compile.is_none() ? nullptr : compile.ptr());
  if (!machine_library.empty()) {
    open_machine(machine_library, cores, checked, instruction_limit);
  }
  use_machine(!machine_library.empty());
}

void set_executor(const std::string& name) {
  TORCH_CHECK_VALUE(
      name == "machine" || name == "reference", "the executor is 'machine' or 'reference', not '",
      name, "'");
  TORCH_CHECK(name == "reference" || machine_is_open(), "no machine library was loaded: see _init");
  use_machine(name == "machine");
}

py::object trace_of_tensors(const std::vector<at::Tensor>& tensors) {
  std::vector<Value> values;
  {
    const RecorderLock lock(recorder_mutex());
    for (const auto& tensor : tensors) {
      TORCH_CHECK_VALUE(
          tensor.is_privateuseone(), "expected ftm tensors, got one on ", tensor.device());
      values.push_back(read(*tensor.unsafeGetTensorImpl()));
    }
  }
  return recorded_trace(trace_of_pending(values));
}

py::bytes rng_state(int device) {
  auto generator = default_generator(static_cast<c10::DeviceIndex>(device));
  const std::lock_guard<std::mutex> guard(generator.mutex());
  const uint64_t words[2] = {generator.current_seed(), generator.get_offset()};
  return py::bytes(reinterpret_cast<const char*>(words), sizeof(words));
}

void set_rng_state(const std::string& state, int device) {
  uint64_t words[2];
  TORCH_CHECK_VALUE(
      state.size() == sizeof(words), "RNG state of device ftm has ", sizeof(words),
      " bytes, this one has ", state.size());
  std::memcpy(words, state.data(), sizeof(words));
  auto generator = default_generator(static_cast<c10::DeviceIndex>(device));
  const std::lock_guard<std::mutex> guard(generator.mutex());
  generator.set_current_seed(words[0]);
  generator.set_offset(words[1]);
}

// Returns a DLPack 1.0 capsule of read-only CPU memory, shared with the device. Writes to the
// tensor make a new buffer, so the capsule keeps the current elements.
py::capsule read_only_dlpack(const at::Tensor& tensor) {
  DLManagedTensorVersioned* managed = nullptr;
  {
    const GilRelease unlocked;
    managed = at::toDLPackVersioned(observed(tensor));
  }
  managed->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  return py::capsule(managed, "dltensor_versioned", [](PyObject* capsule) {
    // A consumer renames the capsule when it takes the tensor.
    if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
      auto* unused = static_cast<DLManagedTensorVersioned*>(
          PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      unused->deleter(unused);
    }
  });
}

// Returns (address, capacity, requested bytes, device) of each segment.
std::vector<std::tuple<uintptr_t, size_t, size_t, int>> segment_rows() {
  std::vector<std::tuple<uintptr_t, size_t, size_t, int>> rows;
  for (const auto& segment : memory_segments()) {
    rows.emplace_back(
        reinterpret_cast<uintptr_t>(segment.address), segment.capacity, segment.requested,
        segment.device);
  }
  return rows;
}

// Wraps a function for Python: translates errors as PyTorch does, and releases the GIL.
template <auto function, typename... Arguments>
auto wrap_without_gil(void (*)(Arguments...)) {
  return torch::wrap_pybind_function([](Arguments... arguments) {
    const GilRelease unlocked;
    function(arguments...);
  });
}

template <auto function>
auto without_gil() {
  return wrap_without_gil<function>(function);
}

} // namespace
} // namespace ftm

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace ftm;
  m.doc() = "The recorder of device ftm: turns PyTorch calls into traces and launches programs.";
  register_device();
  register_recorded_ops();
  register_sparse_fallbacks();

  const auto no_gil = py::call_guard<GilRelease>();
  m.def(
      "_init", &init, py::arg("native_ops"), py::arg("machine_library"), py::arg("cores"),
      py::arg("checked"), py::arg("instruction_limit"), py::arg("compile_fn"));
  m.def("_run_backward", &run_backward);
  m.def("_begin_step", without_gil<&ftm::begin_step>());
  m.def("_end_step", without_gil<&ftm::end_step>(), py::arg("optimizer"));
  m.def("_sync", without_gil<&ftm::sync>(), py::arg("wait") = false);
  m.def("_wait", without_gil<&wait_for_all>());
  m.def("_wait_for_compilations", &wait_for_compilations);
  // The ident of the thread whose trace this thread's calls are part of.
  m.def("_recording_thread", [] { return pending_trace().owner; });
  m.def(
      "_shutdown",
      [](double patience) {
        wait_for_autograd();
        begin_shutdown();
        stop_compile_threads();
        stop_launcher(std::chrono::milliseconds(static_cast<int64_t>(1000 * patience)));
      },
      py::arg("patience"), no_gil);
  m.def("_trace", torch::wrap_pybind_function(&trace_of_tensors), py::arg("tensors"));

  m.def("_counters", &counter_values);
  m.def("_recorded_calls", &recorded_calls, no_gil);
  m.def(
      "_count", [](const std::string& name, int64_t n) { counter(name).fetch_add(n); },
      py::arg("name"), py::arg("n") = 1);
  m.def("_reset_counters", &reset_counters);

  m.def("_metric_names", &metric_names);
  m.def("_metric_data", &metric_samples);
  m.def("_metric_report", &metric_report);
  m.def("_add_time", [](const std::string& name, double seconds) {
    add_sample(name, Measure::time, seconds * 1e9);
  });
  m.def("_reset_metrics", &reset_metrics);
  m.def("_forbid_launch", &forbid_launch);
  m.def("_forbidden_launch", &forbidden_launch);
  m.def("_launches", &launches);
  m.def("_last_program", &last_program);

  m.def("_initial_seed", [] { return default_generator().current_seed(); });
  m.def("_get_rng_state", &rng_state, py::arg("device"));
  m.def(
      "_set_rng_state", torch::wrap_pybind_function(&ftm::set_rng_state), py::arg("state"),
      py::arg("device"));
  m.def(
      "_default_generator",
      [](int device) {
        return py::reinterpret_steal<py::object>(
            THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(device))));
      },
      py::arg("device"));

  m.def("_read_only_dlpack", torch::wrap_pybind_function(&read_only_dlpack), py::arg("tensor"));
  m.def("_memory_segments", &segment_rows);
  m.def("_set_memory_fraction", torch::wrap_pybind_function(&set_memory_fraction));
  m.def("_memory_fraction", &memory_fraction);
  m.def("_reset_peak_memory_stats", &reset_peak_memory);
  m.def("_reset_accumulated_memory_stats", &reset_accumulated_memory);
  m.def(
      "_empty_cache",
      [] {
        Runtime::instance().reset();
        empty_memory_pool();
      },
      no_gil);

  bind_capture(m);
  bind_recorded_trace(m);
  bind_distributed(m);
  bind_profile(m);

  m.def("_set_recording", torch::wrap_pybind_function(&set_traits), py::arg("rows"));
  m.def("_set_native_ops", torch::wrap_pybind_function(&set_native_ops), py::arg("native_ops"));
  m.def("_set_strict", &set_strict);
  m.def("_set_compile_at_launch", &set_compile_at_launch);
  m.def("_set_compile_threads", torch::wrap_pybind_function(&set_compile_threads));
  m.def("_set_trace_limit", torch::wrap_pybind_function(&set_trace_limit));
  m.def("_set_loop_length", torch::wrap_pybind_function([](int64_t calls) {
          set_loop_length(calls);
          Runtime::instance().reset();
        }));
  m.def("_set_max_in_flight", torch::wrap_pybind_function(&set_max_in_flight));
  m.def("_set_executor", torch::wrap_pybind_function(&set_executor));
  m.def("_executor", [] { return uses_machine() ? "machine" : "reference"; });
  m.def(
      "_set_observer",
      [](const py::object& fn) { set_observer(fn.is_none() ? nullptr : fn.ptr()); }, py::arg("fn"));
  m.def("_set_debug_locations", [](bool on) { note_all_origins(NoteReason::debugging, on); });
  m.def("_set_library_folders", &set_library_folders);
  m.def("_set_program_limit", torch::wrap_pybind_function(&set_program_limit));
  m.def("_program_count", &program_count);
  m.def("_reset", [] { Runtime::instance().reset(); }, no_gil);
  m.def("_in_bad_fork", &in_bad_fork);
  m.def("_device_count", &device_count);
  m.def("_set_device_count", torch::wrap_pybind_function(&set_device_count));
  m.def("_current_device", [] { return static_cast<int>(current_device().index()); });
  m.def("_set_current_device", torch::wrap_pybind_function([](int index) {
          set_current_device(static_cast<c10::DeviceIndex>(index));
        }));
  m.def("_device_was_used", &device_was_used);
}
