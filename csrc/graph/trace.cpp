#include "graph/trace.h"

#include "graph/call_spec_text.h"

namespace ftm {

Trace make_trace(const Graph& graph) {
  Trace trace;
  for (const auto* parameter : graph.parameters) {
    trace.parameters.push_back(parameter->type(0));
  }
  auto next = graph.operands.begin();
  for (const auto* call : graph.calls) {
    const auto count = static_cast<std::ptrdiff_t>(call->values.size());
    trace.calls.push_back({call->spec_ptr(), {next, next + count}});
    next += count;
  }
  trace.results = graph.result_numbers;
  for (const auto& result : graph.results) {
    trace.result_types.push_back(type_of(result));
  }
  return trace;
}

namespace {

class TextWriter {
 public:
  explicit TextWriter(const Trace& trace) : trace_(trace) {}

  std::string text() {
    text_ = "trace\n";
    for (size_t i = 0; i < trace_.parameters.size(); ++i) {
      text_ += "  %" + std::to_string(i) + " = param " + type_text(trace_.parameters[i]) + "\n";
    }
    write_scalars();
    for (const auto& call : trace_.calls) {
      write_call(call);
    }
    text_ += "  return";
    for (size_t i = 0; i < trace_.results.size(); ++i) {
      text_ += i == 0 ? " " : ", ";
      write_value(trace_.results[i]);
    }
    return text_ + "\n";
  }

 private:
  void write_value(ValueNumber value) {
    const auto before = value.is_parameter() ? 0 : static_cast<int64_t>(trace_.parameters.size());
    text_ += "%" + std::to_string(before + value.index());
  }

  void write_scalars() {
    int64_t number = 0;
    for (const auto& call : trace_.calls) {
      for (const auto& slot : call.spec->slots) {
        if (slot.kind != OperandSlot::Kind::value) {
          text_ += "  $" + std::to_string(number++) + " = scalar " +
                   (slot.kind == OperandSlot::Kind::scalar_float ? "f64\n" : "i64\n");
        }
      }
    }
  }

  void write_call(const Trace::Call& call) {
    const CallSpec& spec = *call.spec;
    for (size_t i = 0; i < spec.results.size(); ++i) {
      text_ += i == 0 ? "  " : ", ";
      write_value(ValueNumber::result(results_written_++));
    }
    text_ += " = " + spec.text_parts[0];
    size_t operand = 0;
    for (size_t i = 0; i < spec.slots.size(); ++i) {
      if (spec.slots[i].kind == OperandSlot::Kind::value) {
        write_value(call.operands[operand++]);
      } else {
        text_ += "$" + std::to_string(scalars_written_++);
      }
      text_ += spec.text_parts[i + 1];
    }
    for (size_t i = 0; i < spec.results.size(); ++i) {
      text_ += (i == 0 ? " : " : ", ") + type_text(spec.results[i].type);
    }
    text_ += "\n";
  }

  const Trace& trace_;
  std::string text_;
  int64_t results_written_ = 0;
  int64_t scalars_written_ = 0;
};

} // namespace

std::string trace_text(const Trace& trace) {
  return TextWriter(trace).text();
}

} // namespace ftm
