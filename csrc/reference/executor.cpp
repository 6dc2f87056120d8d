#include "reference/executor.h"

#include "reference/call_on_cpu.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace ftm {
namespace {

// Results of this thread's run that another thread completes.
struct Incomplete {
  at::Tensor result;
  std::function<void()> wait;
};
thread_local std::vector<Incomplete> incomplete;

void complete(const at::Tensor& tensor) {
  const auto found = std::find_if(incomplete.begin(), incomplete.end(), [&](const auto& entry) {
    return tensor.defined() && tensor.is_alias_of(entry.result);
  });
  if (found != incomplete.end()) {
    const auto wait = std::move(found->wait);
    incomplete.erase(found);
    wait();
  }
}

class ReferenceRun {
 public:
  ReferenceRun(
      const Trace& trace, std::vector<at::Tensor> inputs, const std::vector<uint64_t>& scalars,
      const Origin& origin)
      : trace_(trace), inputs_(std::move(inputs)), scalars_(scalars), origin_(origin) {}

  ReferenceResults run(void (*before_call)()) {
    incomplete.clear();
    find_last_uses();
    auto dead = deaths_.begin();
    ReferenceResults results;
    for (size_t i = 0; i < trace_.calls.size() && !results.failure; ++i) {
      const size_t computed = values_.size();
      before_call();
      try {
        run_call(trace_.calls[i]);
        for (; dead != deaths_.end() && dead->call == i; ++dead) {
          values_[dead->value].reset();
        }
      } catch (const std::exception& error) {
        results.failure = failure_from(error, where(i));
        values_.resize(computed);
      }
    }
    for (const auto result : trace_.results) {
      results.tensors.push_back(final_value(result, results.failure));
    }
    incomplete.clear();
    return results;
  }

 private:
  std::string where(size_t call) const {
    return "(" + trace_.calls[call].spec->name +
           " in a program that was launched earlier on device ftm" + origin_.launch_text() +
           origin_.record_text(call) + ")";
  }

  // A value, by the number of its call result, and the call after which it is freed.
  struct Death {
    size_t call;
    size_t value;
  };

  void find_last_uses() {
    constexpr size_t kNever = SIZE_MAX;
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const auto& call = trace_.calls[i];
      for (size_t result = 0; result < call.spec->results.size(); ++result) {
        deaths_.push_back({i, deaths_.size()});
      }
      for (const auto operand : call.operands) {
        if (!operand.is_parameter()) {
          deaths_[operand.index()].call = i;
        }
      }
    }
    values_.reserve(deaths_.size());
    for (const auto result : trace_.results) {
      if (!result.is_parameter()) {
        deaths_[result.index()].call = kNever;
      }
    }
    std::sort(deaths_.begin(), deaths_.end(), [](const Death& a, const Death& b) {
      return a.call < b.call;
    });
  }

  const at::Tensor& value(ValueNumber number) const {
    if (number.is_parameter()) {
      return inputs_[number.index()];
    }
    complete(values_[number.index()]);
    return values_[number.index()];
  }

  // Returns a result of the trace, or an undefined tensor if it was not computed.
  at::Tensor final_value(ValueNumber number, FailurePtr& failure) const {
    if (!number.is_parameter() && number.index() >= static_cast<int64_t>(values_.size())) {
      return {};
    }
    try {
      return value(number);
    } catch (const std::exception& error) {
      failure = failure ? failure : failure_from(error, "");
      return {};
    }
  }

  void run_call(const Trace::Call& call) {
    c10::SmallVector<at::Tensor, 4> operands;
    for (const auto number : call.operands) {
      operands.push_back(value(number));
    }
    const uint64_t* const scalars = scalars_.data() + next_scalar_;
    next_scalar_ += call.spec->scalars;
    run_on_cpu(*call.spec, operands, scalars, values_);
  }

  const Trace& trace_;
  std::vector<at::Tensor> inputs_;
  const std::vector<uint64_t>& scalars_;
  const Origin& origin_;
  std::vector<at::Tensor> values_;
  std::vector<Death> deaths_; // by call
  size_t next_scalar_ = 0;
};

} // namespace

ReferenceResults run_reference(
    const Trace& trace, std::vector<at::Tensor> inputs, const std::vector<uint64_t>& scalars,
    const Origin& origin, void (*before_call)()) {
  const ValuesOnlyGuard guard;
  return ReferenceRun(trace, std::move(inputs), scalars, origin).run(before_call);
}

std::vector<at::Tensor> evaluate_graph(const Graph& graph, c10::ArrayRef<Input> inputs) {
  const ValuesOnlyGuard guard;
  c10::SmallVector<at::Tensor, 8> parameters;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parameters.push_back(dense_on_cpu(inputs[i], graph.parameters[i]->type(0)));
  }
  std::vector<at::Tensor> values;
  const auto value = [&](ValueNumber number) -> const at::Tensor& {
    return number.is_parameter() ? parameters[number.index()] : values[number.index()];
  };
  const ValueNumber* operand = graph.operands.data();
  const uint64_t* scalars = graph.scalars.data();
  for (const auto* call : graph.calls) {
    const CallSpec& spec = call->spec();
    c10::SmallVector<at::Tensor, 4> operands;
    for (int32_t i = 0; i < spec.values; ++i) {
      operands.push_back(value(*operand++));
    }
    run_on_cpu(spec, operands, scalars, values);
    scalars += spec.scalars;
  }
  std::vector<at::Tensor> results;
  results.reserve(graph.result_numbers.size());
  for (const auto number : graph.result_numbers) {
    results.push_back(value(number));
  }
  return results;
}

void complete_before_read(at::Tensor result, std::function<void()> wait) {
  incomplete.push_back({std::move(result), std::move(wait)});
}

at::Tensor dense_on_cpu(const Input& input, const ValueType& type) {
  return at::from_blob(
      input.data(), type.sizes, [buffer = input.buffer](void*) {},
      at::TensorOptions().dtype(type.dtype));
}

void store_on_cpu(const at::Tensor& result, const ValueType& type, const Buffer& buffer) {
  if (type.numel() != 0) {
    at::from_blob(buffer.data(), type.sizes, at::TensorOptions().dtype(type.dtype)).copy_(result);
  }
}

} // namespace ftm
