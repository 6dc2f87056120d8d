#include "record.h"

#include "counters.h"
#include "executor.h"
#include "fallback.h"
#include "random.h"
#include "shapes.h"
#include "views.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>

#include <bit>

namespace ftm {
namespace {

using Key = c10::SmallVector<uint64_t, 64>;

// Words of a key start with what the next ones are, so that different calls never give the same words.
enum class Tag : uint64_t { none = 1, tensor, scalar, attribute, list, text };

uint64_t tagged(Tag tag, uint64_t payload) {
  return static_cast<uint64_t>(tag) << 56 | payload;
}

struct Call {
  Key key;
  c10::SmallVector<const at::TensorImpl*, 8> operands; // slots of kind value
  c10::SmallVector<uint64_t, 64> scalars; // the other slots
};

[[noreturn]] void device_mismatch(const Op& op, size_t argument, c10::Device device) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ftm:0 and ",
      device, "! (when checking argument for argument ", op.handle.schema().arguments()[argument].name(),
      " in method ", op.called_name, ")");
}

// Brings a tensor of another device over, where eager allows to mix: numbers, and indices.
at::Tensor brought_over(const Op& op, size_t argument, const at::Tensor& tensor) {
  const bool allowed = tensor.device().is_cpu() && !op.arguments[argument].written &&
      (tensor.dim() == 0 || op.cpu_indices);
  if (!allowed) {
    device_mismatch(op, argument, tensor.device());
  }
  return tensor.to(c10::Device(c10::kPrivateUse1, 0));
}

void add_tensor(Call& call, const at::TensorImpl& tensor, bool operand) {
  const auto rank = static_cast<size_t>(tensor.dim());
  call.key.push_back(tagged(
      Tag::tensor, static_cast<uint64_t>(c10::typeMetaToScalarType(tensor.dtype())) << 16 | rank));
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  call.key.append(sizes.begin(), sizes.end());
  call.key.append(strides.begin(), strides.end());
  if (operand) {
    call.operands.push_back(&tensor);
  }
}

void add_wrapped_number(Call& call, const at::Tensor& tensor) {
  call.key.push_back(tagged(Tag::scalar, static_cast<uint64_t>(tensor.scalar_type())));
  switch (tensor.scalar_type()) {
    case at::kDouble:
      call.scalars.push_back(std::bit_cast<uint64_t>(*tensor.const_data_ptr<double>()));
      break;
    case at::kLong:
      call.scalars.push_back(static_cast<uint64_t>(*tensor.const_data_ptr<int64_t>()));
      break;
    case at::kBool:
      call.key.push_back(static_cast<uint64_t>(*tensor.const_data_ptr<bool>()));
      break;
    default: // complex: the form says fallback
      break;
  }
}

void add_tensor_argument(Call& call, const Op& op, size_t index, c10::IValue& value) {
  if (value.isNone() || !value.toTensor().defined()) {
    call.key.push_back(tagged(Tag::none, 0));
    return;
  }
  if (!value.toTensor().is_privateuseone()) {
    if (is_wrapped_number(value.toTensor())) {
      add_wrapped_number(call, value.toTensor());
      return;
    }
    value = brought_over(op, index, value.toTensor());
  }
  add_tensor(call, *value.toTensor().unsafeGetTensorImpl(), !op.arguments[index].out);
}

void add_tensor_list(Call& call, const Op& op, size_t index, c10::IValue& value) {
  const auto list = value.toListRef();
  call.key.push_back(tagged(Tag::list, list.size()));
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].isNone() || !list[i].toTensor().defined()) {
      call.key.push_back(tagged(Tag::none, 0));
      continue;
    }
    if (!list[i].toTensor().is_privateuseone()) {
      if (value.isTensorList()) {
        device_mismatch(op, index, list[i].toTensor().device());
      }
      // An index on the CPU: the list is ours to change, the caller's copy stays as it is.
      auto copied = value.toOptionalTensorList().copy();
      copied.set(i, brought_over(op, index, list[i].toTensor()));
      value = copied;
    }
    add_tensor(call, *value.toListRef()[i].toTensor().unsafeGetTensorImpl(), true);
  }
}

void add_scalar(Call& call, bool constant, const c10::IValue& value) {
  if (value.isBool()) {
    call.key.push_back(tagged(Tag::scalar, static_cast<uint64_t>(at::kBool)));
    call.key.push_back(value.toBool());
    return;
  }
  uint64_t bits = 0;
  auto dtype = at::kDouble;
  if (value.isDouble()) {
    bits = std::bit_cast<uint64_t>(value.toDouble());
  } else if (value.isInt()) {
    dtype = at::kLong;
    bits = static_cast<uint64_t>(value.toInt());
  } else {
    dtype = at::kComplexDouble; // the form says fallback
  }
  call.key.push_back(tagged(Tag::scalar, static_cast<uint64_t>(dtype)));
  (constant ? call.key : call.scalars).push_back(bits);
}

void add_list(Call& call, ArgumentKind kind, const c10::IValue& value) {
  const auto list = value.toListRef();
  call.key.push_back(tagged(Tag::list, list.size()));
  for (const auto& element : list) {
    switch (kind) {
      case ArgumentKind::float_list:
        call.key.push_back(std::bit_cast<uint64_t>(element.toDouble()));
        break;
      case ArgumentKind::bool_list:
        call.key.push_back(element.toBool());
        break;
      case ArgumentKind::scalar_list:
        break; // the form says fallback
      default:
        call.key.push_back(static_cast<uint64_t>(element.toInt()));
    }
  }
}

void add_text(Call& call, const std::string& text) {
  call.key.push_back(tagged(Tag::text, text.size()));
  for (const char c : text) {
    call.key.push_back(static_cast<uint8_t>(c));
  }
}

void read_call(Call& call, const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  call.key.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    auto& value = const_cast<c10::IValue&>(arguments[i]);
    const auto kind = op.arguments[i].kind;
    if (kind == ArgumentKind::ignored) {
      continue;
    }
    if (kind == ArgumentKind::tensor) {
      add_tensor_argument(call, op, i, value);
    } else if (value.isNone()) {
      call.key.push_back(tagged(Tag::none, 0));
    } else if (kind == ArgumentKind::scalar || kind == ArgumentKind::scalar_constant) {
      add_scalar(call, kind == ArgumentKind::scalar_constant, value);
    } else if (kind == ArgumentKind::tensor_list) {
      add_tensor_list(call, op, i, value);
    } else if (kind == ArgumentKind::integer) {
      call.key.push_back(tagged(Tag::attribute, 0));
      call.key.push_back(static_cast<uint64_t>(value.toInt()));
    } else if (kind == ArgumentKind::boolean) {
      call.key.push_back(tagged(Tag::attribute, value.toBool()));
    } else if (kind == ArgumentKind::floating) {
      call.key.push_back(tagged(Tag::attribute, 0));
      call.key.push_back(std::bit_cast<uint64_t>(value.toDouble()));
    } else if (kind == ArgumentKind::string) {
      add_text(call, value.toStringRef());
    } else {
      add_list(call, kind, value);
    }
  }
}

constexpr size_t kMostForms = 1 << 14; // of one op

FormPtr find_form(Op& op, const Key& key, uint64_t hash) {
  std::lock_guard<std::mutex> guard(op.mutex);
  const auto found = op.forms.find(hash);
  if (found != op.forms.end()) {
    for (const auto& entry : found->second) {
      if (entry.key.size() == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) {
        return entry.form;
      }
    }
  }
  return FormPtr();
}

void keep_form(Op& op, const Key& key, uint64_t hash, const FormPtr& form) {
  std::lock_guard<std::mutex> guard(op.mutex);
  if (op.forms.size() >= kMostForms) {
    op.forms.clear(); // shapes that never come back must not pile up; nodes keep their own
  }
  op.forms[hash].push_back({std::vector<uint64_t>(key.begin(), key.end()), form});
}

void check_written(const Op& op, const Form& form, const torch::jit::Stack& stack, size_t base) {
  for (size_t i = 0; i < op.written.size(); ++i) {
    const auto& tensor = stack[base + op.written[i]].toTensor();
    if (!form.written_sizes.empty()) {
      at::native::resize_output(tensor, form.written_sizes[i]);
    }
    at::assert_no_internal_overlap(tensor);
    const auto* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    for (size_t j = 0; j < op.arguments.size(); ++j) {
      const auto& other = stack[base + j];
      if (other.isTensor() && other.toTensor().defined() && !other.isSameIdentity(stack[base + op.written[i]]) &&
          other.toTensor().unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
        at::assert_no_partial_overlap(tensor, other.toTensor());
      }
    }
  }
}

std::atomic<int64_t>& ops_traced() {
  static auto& cell = counter("ops_traced");
  return cell;
}

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
  node->values.append(values.begin(), values.end());
  node->scalars.append(scalars.begin(), scalars.end());
  return Value(NodePtr(std::move(node)), 0);
}

void record(Op& op, torch::jit::Stack* stack) {
  cut_if_long();
  const size_t base = stack->size() - op.arguments.size();
  const c10::ArrayRef<c10::IValue> arguments(stack->data() + base, op.arguments.size());
  Call call;
  read_call(call, op, arguments);
  const uint64_t hash = hash_words(call.key.data(), call.key.size());
  FormPtr form = find_form(op, call.key, hash);
  if (!form) {
    form = infer_form(op, arguments);
    keep_form(op, call.key, hash, form);
  }
  if (form->fallback) {
    run_fallback(op, stack);
    return;
  }
  if (op.random) {
    const auto draw = next_random_draw(op.generator < 0 ? c10::IValue() : arguments[op.generator]);
    call.scalars.push_back(draw.seed);
    call.scalars.push_back(draw.offset);
  }
  if (!op.written.empty()) {
    check_written(op, *form, *stack, base);
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

namespace {

// Keys of calls on values start with a word that no recorded call's key starts with.
constexpr uint64_t kOnValues = ~uint64_t{0};

void add_attribute(Key& key, const c10::IValue& value) {
  if (value.isNone()) {
    key.push_back(tagged(Tag::none, 0));
  } else if (value.isIntList()) {
    const auto list = value.toListRef();
    key.push_back(tagged(Tag::list, list.size()));
    for (const auto& element : list) {
      key.push_back(static_cast<uint64_t>(element.toInt()));
    }
  } else if (value.isBool()) {
    key.push_back(tagged(Tag::attribute, value.toBool()));
  } else {
    key.push_back(tagged(Tag::attribute, 2));
    key.push_back(static_cast<uint64_t>(value.toInt()));
  }
}

void add_type(Key& key, const ValueType& type) {
  key.push_back(tagged(Tag::tensor, static_cast<uint64_t>(type.dtype) << 16 | type.sizes.size()));
  key.append(type.sizes.begin(), type.sizes.end());
}

ResultType dense_result(ValueType type) {
  ResultType result;
  result.type = std::move(type);
  return result;
}

} // namespace

Value call_on_values(
    Op& op, std::vector<c10::IValue> arguments, const std::vector<int32_t>& operands,
    c10::ArrayRef<Value> values, ValueType result) {
  Key key;
  key.push_back(kOnValues);
  for (const auto& value : values) {
    add_type(key, type_of(value));
  }
  for (const auto& argument : arguments) {
    add_attribute(key, argument);
  }
  const uint64_t hash = hash_words(key.data(), key.size());
  FormPtr form = find_form(op, key, hash);
  if (!form) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& type = type_of(values[i]);
      arguments[operands[i]] = at::detail::empty_meta(type.sizes, type.dtype, {}, {}, {}, {});
    }
    form = make_form(op, arguments, {dense_result(std::move(result))}, {-1});
    keep_form(op, key, hash, form);
  }
  return add_call(op.kind, std::move(form), values, {});
}

Value call_with_scalar(
    Op& op, std::vector<c10::IValue> arguments, int32_t scalar, const at::Scalar& value, ValueType result) {
  Key key;
  key.push_back(kOnValues);
  key.push_back(value.isFloatingPoint());
  for (const auto& argument : arguments) {
    add_attribute(key, argument);
  }
  const uint64_t hash = hash_words(key.data(), key.size());
  FormPtr form = find_form(op, key, hash);
  if (!form) {
    arguments[scalar] = value;
    form = make_form(op, arguments, {dense_result(std::move(result))}, {-1});
    keep_form(op, key, hash, form);
  }
  return add_call(op.kind, std::move(form), {}, {scalar_bits(value)});
}

} // namespace ftm
