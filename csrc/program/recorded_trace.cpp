#include "program/recorded_trace.h"

#include "support/gil.h"

#include <torch/csrc/utils/pybind.h>

#include <algorithm>

namespace py = pybind11;

namespace ftm {
namespace {

template <typename Values>
py::tuple to_tuple(const Values& values) {
  py::tuple items(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    items[i] = py::cast(values[i]);
  }
  return items;
}

const char* memory_format_name(int64_t format) {
  switch (static_cast<at::MemoryFormat>(format)) {
    case at::MemoryFormat::Contiguous: return "contiguous_format";
    case at::MemoryFormat::Preserve: return "preserve_format";
    case at::MemoryFormat::ChannelsLast: return "channels_last";
    default: return "channels_last_3d";
  }
}

// Returns (dtype, sizes), or None for an undefined tensor.
py::object type_data(const ValueType& type) {
  if (type.dtype == at::ScalarType::Undefined) {
    return py::none();
  }
  return py::make_tuple(dtype_token(type.dtype), to_tuple(type.sizes));
}

// How Python reads an argument's data.
constexpr const char* kAttribute = "attribute"; // as it is
constexpr const char* kDtype = "dtype"; // a dtype's token
constexpr const char* kOperands = "operands"; // with "%" for a value and "$" for a scalar

py::tuple argument_data(const c10::Argument& argument, const c10::IValue& value) {
  const auto& name = argument.name();
  const c10::TypePtr& type = argument.real_type();
  const auto optional = type->cast<c10::OptionalType>();
  const auto kind = (optional ? optional->getElementType() : type)->kind();
  if (value.isNone()) {
    return py::make_tuple(name, kAttribute, py::none());
  }
  if (kind == c10::TypeKind::ScalarTypeType) {
    return py::make_tuple(name, kDtype, dtype_token(value.toScalarType()));
  }
  py::object data;
  if (kind == c10::TypeKind::MemoryFormatType) {
    data = py::str(memory_format_name(value.toInt()));
  } else if (value.isBool()) {
    data = py::bool_(value.toBool());
  } else if (value.isInt()) {
    data = py::int_(value.toInt());
  } else if (value.isDouble()) {
    data = py::float_(value.toDouble());
  } else if (value.isString()) {
    data = py::str(value.toStringRef());
  } else if (value.isIntList()) {
    data = to_tuple(value.toIntVector());
  } else if (value.isDoubleList()) {
    data = to_tuple(value.toDoubleVector());
  } else {
    data = to_tuple(value.toBoolList().vec());
  }
  return py::make_tuple(name, kAttribute, data);
}

py::str mark(const OperandSlot& slot) {
  return slot.kind == OperandSlot::Kind::value ? "%" : "$";
}

py::tuple operands_data(const CallSpec& spec, const std::string& name, size_t argument) {
  std::vector<OperandSlot> slots;
  std::copy_if(
      spec.slots.begin(), spec.slots.end(), std::back_inserter(slots),
      [&](const OperandSlot& slot) { return slot.argument == static_cast<int32_t>(argument); });
  if (slots.size() == 1 && slots[0].element < 0) {
    return py::make_tuple(name, kOperands, mark(slots[0]));
  }
  const auto length = static_cast<size_t>(std::max<int64_t>(0, spec.tensor_lists[argument]));
  py::list elements;
  for (size_t i = 0; i < std::max(length, slots.size()); ++i) {
    elements.append(py::none());
  }
  for (const auto& slot : slots) {
    elements[slot.element] = mark(slot);
  }
  return py::make_tuple(name, kOperands, py::tuple(elements));
}

py::list call_arguments(const CallSpec& spec) {
  py::list data;
  if (spec.kind != CallSpec::Kind::aten) {
    data.append(py::make_tuple("base", kOperands, "%"));
    if (spec.kind == CallSpec::Kind::update) {
      data.append(py::make_tuple("value", kOperands, "%"));
    }
    if (spec.kind == CallSpec::Kind::bitcast) {
      data.append(py::make_tuple("dtype", kDtype, dtype_token(spec.results[0].type.dtype)));
      return data;
    }
    data.append(py::make_tuple("sizes", kAttribute, to_tuple(spec.sizes)));
    data.append(py::make_tuple("strides", kAttribute, to_tuple(spec.strides)));
    data.append(py::make_tuple("offset", kAttribute, spec.offset));
    return data;
  }
  const auto& schema = spec.handle().schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i) {
    if (is_recorded(schema[i])) {
      data.append(
          spec.has_operands(i) ? operands_data(spec, schema[i].name(), i)
                               : argument_data(schema[i], spec.arguments[i]));
    }
  }
  for (const auto& slot : spec.slots) {
    if (slot.argument < 0) {
      data.append(py::make_tuple(slot.element == 0 ? "seed" : "offset", kOperands, mark(slot)));
    }
  }
  return data;
}

// The data of a trace. Python keeps the specs that it has seen, so it asks for few of them.
class RecordedTrace {
 public:
  explicit RecordedTrace(const Trace& trace) : trace_(trace) {}

  py::list params() const {
    py::list types;
    for (const auto& type : trace_.parameters) {
      types.append(type_data(type));
    }
    return types;
  }

  py::list scalars() const {
    py::list dtypes;
    for (const auto& call : trace_.calls) {
      for (const auto& slot : call.spec->slots) {
        if (slot.kind != OperandSlot::Kind::value) {
          dtypes.append(slot.kind == OperandSlot::Kind::scalar_float ? "f64" : "i64");
        }
      }
    }
    return dtypes;
  }

  // Returns a key of its spec, and its operands, for each call.
  py::list calls() const {
    py::list data;
    int64_t scalars = 0;
    for (const auto& call : trace_.calls) {
      const auto& spec = *call.spec;
      py::tuple operands(spec.slots.size());
      size_t values = 0;
      for (size_t i = 0; i < spec.slots.size(); ++i) {
        operands[i] = py::int_(
            spec.slots[i].kind == OperandSlot::Kind::value ? number(call.operands[values++])
                                                           : scalars++);
      }
      const auto* key = reinterpret_cast<const char*>(&spec.hash);
      data.append(py::make_tuple(py::bytes(key, sizeof(spec.hash)), operands));
    }
    return data;
  }

  py::list results() const {
    py::list numbers;
    for (const auto value : trace_.results) {
      numbers.append(number(value));
    }
    return numbers;
  }

  // Returns (op, arguments, result types) of a call.
  py::tuple spec(size_t call) const {
    const CallSpec& spec = *trace_.calls.at(call).spec;
    py::list types;
    for (const auto& result : spec.results) {
      types.append(type_data(result.type));
    }
    return py::make_tuple(spec.name, call_arguments(spec), types);
  }

 private:
  int64_t number(ValueNumber value) const {
    const auto before = value.is_parameter() ? 0 : static_cast<int64_t>(trace_.parameters.size());
    return before + value.index();
  }

  Trace trace_;
};

} // namespace

py::object recorded_trace(const Trace& trace) {
  return py::cast(RecordedTrace(trace));
}

std::string trace_text(const Trace& trace) {
  const GilAcquire gil;
  const auto module = py::module_::import("ftm_lazy.compile.trace_importer");
  return py::str(module.attr("trace_of")(recorded_trace(trace)));
}

void bind_recorded_trace(py::module_& m) {
  py::class_<RecordedTrace>(m, "_RecordedTrace")
      .def("params", &RecordedTrace::params)
      .def("scalars", &RecordedTrace::scalars)
      .def("calls", &RecordedTrace::calls)
      .def("results", &RecordedTrace::results)
      .def("spec", &RecordedTrace::spec, py::arg("call"));
}

} // namespace ftm
