#include "distributed/bindings.h"

#include "distributed/backend.h"
#include "distributed/collective_tokens.h"
#include "support/gil.h"

#include <pybind11/chrono.h>

namespace ftm {
namespace {

namespace py = pybind11;

// The function's reference is dropped with the GIL, whichever thread drops the last group.
MakeCarrier call_python(py::function make) {
  const std::shared_ptr<py::function> function(
      new py::function(std::move(make)), [](py::function* owned) {
        const GilAcquire locked;
        delete owned;
      });
  return [function](const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout) {
    const GilAcquire locked;
    return (*function)(store, rank, size, timeout).cast<BackendPtr>();
  };
}

} // namespace

void bind_distributed(py::module& module) {
  module.def(
      "_launch_collectives", [] { launch_recorded_collectives(); }, py::call_guard<GilRelease>());
  const auto base = py::module::import("torch._C");
  if (!py::hasattr(base, "_c10d_init")) {
    return;
  }
  py::module::import("torch.distributed"); // defines the base classes
  const auto copy = [](const GroupOptions& self, const py::dict&) {
    return c10::make_intrusive<GroupOptions>(self);
  };
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(
      module, "GroupOptions")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout"))
      .def("__deepcopy__", copy, py::arg("memo"));
  py::class_<GroupBackend, c10d::Backend, c10::intrusive_ptr<GroupBackend>>(module, "GroupBackend")
      .def(
          py::init([](const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout,
                      py::function make_carrier) {
            return c10::make_intrusive<GroupBackend>(
                store, rank, size, timeout, call_python(std::move(make_carrier)));
          }),
          py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
          py::arg("make_carrier"))
      // `new_group` calls it on processes outside of the new group, since NCCL splits a group on
      // all of its processes. Here only the new group's members take part.
      .def(
          "perform_nocolor_split", [](GroupBackend&, const py::object&) {}, py::arg("device"))
      .def_property_readonly("options", &GroupBackend::getBackendOptions);
}

} // namespace ftm
