#include "capture/bindings.h"

#include "capture/capture.h"
#include "capture/graph_call.h"
#include "execute/launcher.h"
#include "program/recorded_trace.h"

#include <torch/csrc/Exceptions.h>

namespace py = pybind11;

namespace ftm {
namespace {

py::list scalar_numbers(const CapturedProgram& captured) {
  py::list values;
  for (const auto& scalar : captured.scalars()) {
    if (scalar.isFloatingPoint()) {
      values.append(scalar.toDouble());
    } else {
      values.append(scalar.toLong());
    }
  }
  return values;
}

// Returns (placeholder or None, constant tensor or None, offset, sizes) for each parameter of the
// trace.
py::list parameters(const CapturedProgram& captured) {
  py::list values;
  for (const auto& parameter : captured.parameters()) {
    py::object placeholder = py::none();
    py::object constant = py::none();
    if (parameter.placeholder >= 0) {
      placeholder = py::int_(parameter.placeholder);
    } else {
      const auto& type = parameter.type;
      c10::DimVector strides(type.sizes.size());
      int64_t stride = 1;
      for (size_t i = strides.size(); i-- > 0; stride *= type.sizes[i]) {
        strides[i] = stride;
      }
      wait_for(parameter.constant);
      constant = py::cast(
          Buffer::as_cpu(parameter.constant, type.dtype, type.sizes, strides, parameter.offset)
              .clone());
    }
    const std::vector<int64_t> sizes(parameter.type.sizes.begin(), parameter.type.sizes.end());
    values.append(py::make_tuple(placeholder, constant, parameter.offset, sizes));
  }
  return values;
}

// Returns (result, input, constant, dtype, sizes, strides, offset) for each output. At most one of
// the first three is not None; none is for an output without elements.
py::list outputs(const CapturedProgram& captured) {
  py::list values;
  for (const auto& output : captured.outputs()) {
    const auto number = [](int32_t value) -> py::object {
      return value < 0 ? py::none() : py::object(py::int_(value));
    };
    py::object constant = py::none();
    if (output.constant) {
      wait_for(output.constant);
      const auto extent =
          static_cast<int64_t>(output.constant->nbytes() / c10::elementSize(output.dtype));
      constant = py::cast(Buffer::as_cpu(output.constant, output.dtype, {extent}, {1}, 0).clone());
    }
    values.append(
        py::make_tuple(
            number(output.result), number(output.input), constant, dtype_token(output.dtype),
            std::vector<int64_t>(output.sizes.begin(), output.sizes.end()),
            std::vector<int64_t>(output.strides.begin(), output.strides.end()), output.offset));
  }
  return values;
}

// Empties the list, so that the program can reuse the memory of inputs that have no other
// references.
std::vector<at::Tensor> launch(CapturedProgram& captured, const py::list& inputs, bool op_by_op) {
  auto tensors = inputs.cast<std::vector<at::Tensor>>();
  inputs.attr("clear")();
  return captured.launch(std::move(tensors), op_by_op);
}

// Empties the list, as above.
py::list call(const GraphCall& call, const py::list& inputs) {
  auto tensors = inputs.cast<std::vector<at::Tensor>>();
  inputs.attr("clear")();
  const auto outputs = call(std::move(tensors));
  py::list results;
  for (const auto& tensor : outputs) {
    results.append(tensor.defined() ? py::cast(tensor) : py::none());
  }
  return results;
}

std::vector<at::Tensor> call_with_gradients(const AutogradCall& call, const py::args& inputs) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const auto& input : inputs) {
    tensors.push_back(input.cast<at::Tensor>());
  }
  return call(std::move(tensors));
}

} // namespace

void bind_capture(py::module_& m) {
  py::class_<Capture>(m, "_Capture")
      .def(py::init<>())
      .def("end", torch::wrap_pybind_function(&Capture::end))
      .def(
          "placeholder", torch::wrap_pybind_function(
                             [](Capture& capture, const std::vector<int64_t>& sizes,
                                const std::vector<int64_t>& strides, at::ScalarType dtype) {
                               return capture.placeholder(sizes, strides, dtype);
                             }))
      .def("finish", torch::wrap_pybind_function(&Capture::finish));
  py::class_<CapturedProgram, std::shared_ptr<CapturedProgram>>(m, "_Captured")
      .def_property_readonly(
          "trace", [](const CapturedProgram& program) { return recorded_trace(program.trace()); })
      .def_property_readonly("parameters", &parameters)
      .def_property_readonly("outputs", &outputs)
      .def_property_readonly("replaces", &CapturedProgram::replaces)
      .def_property_readonly("scalars", &scalar_numbers)
      .def_property_readonly(
          "draws",
          [](const CapturedProgram& captured) {
            std::vector<std::tuple<int64_t, int64_t, uint64_t>> draws;
            for (const auto& draw : captured.draws()) {
              draws.emplace_back(draw.seed, draw.offset, draw.number);
            }
            return draws;
          })
      .def_property_readonly("draws_made", &CapturedProgram::draws_made)
      .def("build", torch::wrap_pybind_function(&CapturedProgram::build))
      .def(
          "launch", torch::wrap_pybind_function(&launch), py::arg("inputs"),
          py::arg("op_by_op") = false);
  py::class_<GraphCall>(m, "_GraphCall")
      .def(
          py::init<
              std::shared_ptr<CapturedProgram>, std::vector<int64_t>, std::vector<at::Tensor>,
              std::vector<std::optional<int64_t>>>(),
          py::arg("program"), py::arg("takes"), py::arg("constants"), py::arg("gives"))
      .def("__call__", torch::wrap_pybind_function(&call));
  py::class_<AutogradCall>(m, "_AutogradCall")
      .def(
          py::init<GraphCall, GraphCall, std::vector<bool>, bool>(), py::arg("forward"),
          py::arg("backward"), py::arg("differentiable"), py::arg("deterministic"))
      .def("__call__", torch::wrap_pybind_function(&call_with_gradients));
}

} // namespace ftm
