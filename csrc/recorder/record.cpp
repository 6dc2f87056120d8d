#include "recorder/record.h"

#include "eager/call_checks.h"
#include "eager/known_indices.h"
#include "process/counters.h"
#include "process/python.h"
#include "random/generator.h"
#include "recorder/call.h"
#include "recorder/fallback.h"
#include "recorder/infer_form.h"
#include "run/cut.h"
#include "run/step_end.h"
#include "tensor/views.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include <bit>

namespace ftm {
namespace {

// Throws where eager refuses to write to memory that the call uses more than once.
void check_overlaps(const Op& op, const torch::jit::Stack& stack, size_t base) {
  for (size_t i = 0; i < op.written.size(); ++i) {
    const auto& tensor = stack[base + op.written[i]].toTensor();
    at::assert_no_internal_overlap(tensor);
    const auto* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    const auto check = [&](const at::Tensor& other) {
      if (other.defined() &&
          other.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
        op.reads_late ? at::assert_no_overlap(tensor, other) : at::assert_no_partial_overlap(tensor, other);
      }
    };
    for (size_t j = 0; j < op.arguments.size(); ++j) {
      const auto& other = stack[base + j];
      const bool apart = static_cast<int32_t>(j) != op.written[i] &&
          (op.reads_late || !other.isSameIdentity(stack[base + op.written[i]]));
      if (other.isTensor() && apart) {
        check(other.toTensor());
      } else if ((other.isTensorList() || other.isOptionalTensorList()) && op.reads_late) {
        for (const c10::IValue& element : other.toListRef()) {
          check(element.isNone() ? at::Tensor() : element.toTensor());
        }
      }
    }
  }
}

void resize_written(const Op& op, const Form& form, const torch::jit::Stack& stack, size_t base) {
  for (size_t i = 0; i < form.written_sizes.size(); ++i) {
    at::native::resize_output(stack[base + op.written[i]].toTensor(), form.written_sizes[i]);
  }
}

std::atomic<int64_t>& ops_traced() {
  static auto& cell = counter("ops_traced");
  return cell;
}

std::atomic<bool> note_locations{false};
thread_local std::shared_ptr<torch::lazy::UserMetaData> current_location;

uint64_t next_sequence = 0; // under the recorder's lock
int64_t calls_since_cut = 0;

void finish_call(Op& op, const FormPtr& form, Call& call, torch::jit::Stack* stack, size_t base) {
  c10::SmallVector<at::Tensor, 4> results;
  c10::SmallVector<c10::IValue, 4> returned;
  {
    const RecorderLock lock(recorder_mutex());
    NodePtr node;
    if (!form->empty) {
      c10::SmallVector<Value, 8> values;
      for (const auto* operand : call.operands) {
        values.push_back(read(*operand));
      }
      node = add_call(op.kind, form, values, call.scalars).node;
      for (size_t i = 0; i < op.written.size(); ++i) {
        if (form->results[i].type.dtype != at::ScalarType::Undefined) {
          const auto& tensor = *(*stack)[base + op.written[i]].toTensor().unsafeGetTensorImpl();
          write(tensor, converted(Value(node, i), c10::typeMetaToScalarType(tensor.dtype())));
        }
      }
    }
    if (op.written.empty()) {
      for (size_t i = 0; i < form->results.size(); ++i) {
        const auto& result = form->results[i];
        if (result.type.dtype == at::ScalarType::Undefined) {
          results.emplace_back();
          continue;
        }
        const bool has_value = node && result.type.numel() != 0;
        results.push_back(make_tensor(
            result.type, result.strides, result.contiguous, has_value ? Value(node, i) : Value()));
      }
    }
  }
  ops_traced().fetch_add(1, std::memory_order_relaxed);
  if (op.written.empty()) {
    size_t next = 0;
    for (const int32_t length : form->list_lengths) {
      if (length < 0) {
        returned.emplace_back(std::move(results[next++]));
        continue;
      }
      c10::List<at::Tensor> list;
      for (int32_t i = 0; i < length; ++i) {
        list.push_back(std::move(results[next++]));
      }
      returned.emplace_back(std::move(list));
    }
  } else {
    for (const auto& source : op.returns) {
      returned.push_back((*stack)[base + source.argument]);
    }
  }
  torch::jit::drop(*stack, op.arguments.size());
  for (auto& value : returned) {
    stack->push_back(std::move(value));
  }
}

} // namespace

void begin_recording() {
  cut_if_long();
  if (note_locations.load(std::memory_order_relaxed)) {
    auto text = python_location();
    current_location = text.empty() ? nullptr : std::make_shared<Location>(std::move(text));
  }
}

void set_locations(bool on) {
  note_locations = on;
  current_location = nullptr;
}

uint64_t scalar_bits(const at::Scalar& value) {
  return value.isFloatingPoint() ? std::bit_cast<uint64_t>(value.toDouble())
                                 : static_cast<uint64_t>(value.toLong());
}

int64_t& pending_length() {
  return calls_since_cut;
}

Value add_call(
    torch::lazy::OpKind kind, FormPtr form, c10::ArrayRef<Value> values, c10::ArrayRef<uint64_t> scalars) {
  auto node = std::make_shared<CallNode>(kind, std::move(form), ++next_sequence);
  ++calls_since_cut;
  if (note_locations.load(std::memory_order_relaxed)) {
    node->SetUserMetadata(current_location);
  }
  node->values.append(values.begin(), values.end());
  node->scalars.append(scalars.begin(), scalars.end());
  return Value(NodePtr(std::move(node)), 0);
}

void record(Op& op, torch::jit::Stack* stack) {
  begin_recording();
  const size_t base = stack->size() - op.arguments.size();
  const c10::ArrayRef<c10::IValue> arguments(stack->data() + base, op.arguments.size());
  Call call;
  read_call(call, op, arguments);
  if (!call.scalars.empty()) {
    check_domain(op, arguments);
  }
  if (after_step.load(std::memory_order_relaxed)) {
    look_for_next_step(call.operands);
  }
  const uint64_t hash = hash_words(call.key.data(), call.key.size());
  FormPtr form = find_form(op, call.key, hash);
  if (!form) {
    form = infer_form(op, arguments);
    keep_form(op, call.key, hash, form);
  }
  if (op.reads_late) {
    check_overlaps(op, *stack, base);
  }
  if (form->fallback) {
    op.composite ? op.handle.callBoxedForDispatchKey(*op.composite, *stack) : run_fallback(op, stack);
    return;
  }
  if (form->fitted != at::ScalarType::Undefined) {
    check_numbers(op, arguments, form->fitted);
  }
  if (op.takes_places) {
    check_known_places(op, arguments);
  }
  if (op.random) {
    const auto draw = next_random_draw(op.generator < 0 ? c10::IValue() : arguments[op.generator]);
    call.scalars.push_back(draw.seed);
    call.scalars.push_back(draw.offset);
  }
  if (!op.written.empty()) {
    resize_written(op, *form, *stack, base);
    check_overlaps(op, *stack, base);
  }
  finish_call(op, form, call, stack, base);
}

void RecordKernel::operator()(
    const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  Op* op = op_.load(std::memory_order_acquire);
  if (op == nullptr) {
    op = &op_named(name_);
    op_.store(op, std::memory_order_release);
  }
  record(*op, stack);
}

} // namespace ftm
