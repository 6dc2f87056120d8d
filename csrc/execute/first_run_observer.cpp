#include "execute/first_run_observer.h"

#include "program/recorded_trace.h"
#include "support/shutdown.h"
#include "support/gil.h"
#include "reference/executor.h"

#include <cxxabi.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <bit>

namespace py = pybind11;

namespace ftm {
namespace {

PyObject* observer = nullptr; // owned; guarded by the GIL
std::atomic<bool> has_observer{false};

std::vector<c10::Scalar> scalar_values(const Trace& trace, const std::vector<uint64_t>& bits) {
  std::vector<c10::Scalar> values;
  for (const auto& call : trace.calls) {
    for (const auto& slot : call.spec->slots) {
      if (slot.kind == OperandSlot::Kind::scalar_float) {
        values.emplace_back(std::bit_cast<double>(bits[values.size()]));
      } else if (slot.kind == OperandSlot::Kind::scalar_int) {
        values.emplace_back(static_cast<int64_t>(bits[values.size()]));
      }
    }
  }
  return values;
}

std::vector<at::Tensor> copies(
    const std::vector<Input>& values, const std::vector<ValueType>& types) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    wait_for(values[i].buffer);
    tensors.push_back(dense_on_cpu(values[i], types[i]).clone());
  }
  return tensors;
}

FTM_CATCHES_FORCED_UNWIND void show_run(
    const Trace& trace, const std::vector<at::Tensor>& inputs,
    const std::vector<c10::Scalar>& scalars, const std::vector<at::Tensor>& outputs) {
  const GilAcquire gil;
  if (observer == nullptr) {
    return;
  }
  try {
    py::list numbers;
    for (const auto& scalar : scalars) {
      if (scalar.isFloatingPoint()) {
        numbers.append(scalar.toDouble());
      } else {
        numbers.append(scalar.toLong());
      }
    }
    const py::handle function(observer);
    function(recorded_trace(trace), inputs, numbers, outputs);
  } catch (const std::exception& error) {
    TORCH_WARN("the observer of ftm programs failed: ", error.what());
  } catch (const abi::__forced_unwind&) {
    park_thread();
  }
}

} // namespace

void start_observed(const JobPtr& job, const ProgramPtr& program) {
  if (!has_observer || !program->first_run()) {
    start(job, program);
    return;
  }
  const Trace& trace = program->trace();
  const auto inputs =
      copies(job->inputs, trace.parameters); // before the run, which may donate them
  const std::vector<Input> outputs(job->outputs.begin(), job->outputs.end());
  const auto scalars = scalar_values(trace, job->scalars);
  start(job, program);
  show_run(trace, inputs, scalars, copies(outputs, trace.result_types));
}

bool is_observed() {
  return has_observer;
}

void set_observer(void* callable) {
  PyObject* old = observer;
  observer = static_cast<PyObject*>(callable);
  Py_XINCREF(observer);
  Py_XDECREF(old);
  has_observer = callable != nullptr;
}

} // namespace ftm
