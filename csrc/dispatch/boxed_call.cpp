#include "dispatch/boxed_call.h"

#include "eager_checks/call_kinds.h"
#include "ops/make_call_spec.h"
#include "support/device_index.h"

#include <ATen/ops/full.h>
#include <c10/core/DefaultDtype.h>

#include <bit>

namespace ftm {
namespace {

[[noreturn]] void device_mismatch(
    const Op& op, size_t argument, c10::Device device, c10::Device expected = current_device()) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ",
      expected, " and ", device, "! (when checking argument for argument ",
      op.handle.schema().arguments()[argument].name(), " in method ", op.called_name, ")");
}

// Moves a tensor of another device to this one, where eager allows mixing: 0-dim tensors, and
// indices.
at::Tensor move_to_device(const Op& op, size_t argument, const at::Tensor& tensor) {
  const bool index = op.cpu_indices && op.arguments[argument].kind == ArgumentKind::tensor_list;
  const bool allowed =
      tensor.device().is_cpu() && !op.arguments[argument].written && (tensor.dim() == 0 || index);
  TORCH_CHECK(
      allowed || !op.cpu_indices || argument != 0,
      "indices should be either on cpu or on the same device as the ", "indexed tensor (",
      tensor.device(), ")");
  if (!allowed) {
    device_mismatch(op, argument, tensor.device());
  }
  return tensor.to(c10::Device(c10::kPrivateUse1));
}

// Replaces a boolean number by a device tensor. Neither promotes dtypes, but a tensor can be an
// operand, so that traces with either value share a program.
at::Tensor bool_tensor(bool value) {
  return at::full(
      {}, value, at::TensorOptions().dtype(at::kBool).device(c10::Device(c10::kPrivateUse1)));
}

void add_tensor(BoxedCall& call, const at::TensorImpl& tensor, bool operand) {
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

void add_complex(BoxedCall& call, c10::complex<double> number) {
  call.scalars.push_back(std::bit_cast<uint64_t>(number.real()));
  call.scalars.push_back(std::bit_cast<uint64_t>(number.imag()));
}

void add_wrapped_number(BoxedCall& call, const at::Tensor& tensor) {
  call.key.push_back(tagged(Tag::scalar, static_cast<uint64_t>(tensor.scalar_type())));
  switch (tensor.scalar_type()) {
    case at::kDouble:
      call.scalars.push_back(std::bit_cast<uint64_t>(*tensor.const_data_ptr<double>()));
      break;
    case at::kLong:
      call.scalars.push_back(static_cast<uint64_t>(*tensor.const_data_ptr<int64_t>()));
      break;
    default: // complex
      add_complex(call, *tensor.const_data_ptr<c10::complex<double>>());
  }
}

// ATen passes lazily conjugated or negated operands to some ops.
bool is_lazy(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kLazy{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative};
  return tensor.key_set().has_any(kLazy);
}

at::Tensor resolve(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg();
}

bool add_tensor_argument(BoxedCall& call, const OpArgument& argument, const c10::IValue& value) {
  if (value.isNone() || !value.toTensor().defined()) {
    call.key.push_back(tagged(Tag::none, 0));
    return true;
  }
  const at::Tensor& tensor = value.toTensor();
  if (!tensor.is_privateuseone()) {
    if (!is_wrapped_number(tensor) || tensor.scalar_type() == at::kBool) {
      return false;
    }
    add_wrapped_number(call, tensor);
    return true;
  }
  if (is_lazy(tensor) && !argument.written) {
    return false;
  }
  add_tensor(call, *tensor.unsafeGetTensorImpl(), !argument.out);
  return true;
}

bool add_tensor_list(BoxedCall& call, const c10::IValue& value) {
  if (!value.isTensorList() && !value.isOptionalTensorList()) {
    return false;
  }
  const auto list = value.toListRef();
  call.key.push_back(tagged(Tag::list, list.size()));
  for (const auto& element : list) {
    if (element.isNone() || !element.toTensor().defined()) {
      call.key.push_back(tagged(Tag::none, 0));
      continue;
    }
    const at::Tensor& tensor = element.toTensor();
    if (!tensor.is_privateuseone() || (is_lazy(tensor) && value.isTensorList())) {
      return false;
    }
    add_tensor(call, *tensor.unsafeGetTensorImpl(), true);
  }
  return true;
}

void add_scalar(BoxedCall& call, bool constant, const c10::IValue& value) {
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
    call.key.push_back(tagged(Tag::scalar, static_cast<uint64_t>(at::kComplexDouble)));
    add_complex(call, value.toComplexDouble()); // if it is a constant, the spec has `fallback`
    return;
  }
  call.key.push_back(tagged(Tag::scalar, static_cast<uint64_t>(dtype)));
  (constant ? call.key : call.scalars).push_back(bits);
}

void add_list(BoxedCall& call, ArgumentKind kind, const c10::IValue& value) {
  const auto list = value.toListRef();
  call.key.push_back(tagged(Tag::list, list.size()));
  for (const auto& element : list) {
    switch (kind) {
      case ArgumentKind::float_list:
        call.key.push_back(std::bit_cast<uint64_t>(element.toDouble()));
        break;
      case ArgumentKind::bool_list: call.key.push_back(element.toBool()); break;
      case ArgumentKind::scalar_list: break; // the spec has `fallback`
      default: call.key.push_back(static_cast<uint64_t>(element.toInt()));
    }
  }
}

void add_text(BoxedCall& call, const std::string& text) {
  call.key.push_back(tagged(Tag::text, text.size()));
  for (const char c : text) {
    call.key.push_back(static_cast<uint8_t>(c));
  }
}

bool replace_tensor(const Op& op, size_t index, c10::IValue& value) {
  if (value.isNone() || !value.toTensor().defined()) {
    return false;
  }
  const at::Tensor& tensor = value.toTensor();
  if (!tensor.is_privateuseone()) {
    if (!is_wrapped_number(tensor)) {
      value = move_to_device(op, index, tensor);
    } else if (tensor.scalar_type() == at::kBool) {
      value = bool_tensor(*tensor.const_data_ptr<bool>());
    } else {
      return false;
    }
    return true;
  }
  if (!is_lazy(tensor) || op.arguments[index].written) {
    return false;
  }
  value = resolve(tensor);
  return true;
}

// Converts the integers of a comparison as eager does.
bool promote_compared(const Op& op, std::span<c10::IValue> arguments) {
  for (size_t i = 0; i < 2; ++i) {
    if (is_integral(arguments[i]) && !op.arguments[i].written) {
      arguments[i] = arguments[i].toTensor().to(c10::get_default_dtype_as_scalartype());
      return true;
    }
  }
  return false;
}

// TorchScript represents lists of optional tensors as generic lists.
bool replace_list_type(c10::IValue& value) {
  if (value.isTensorList() || value.isOptionalTensorList()) {
    return false;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const auto& element : value.toListRef()) {
    list.push_back(element.toOptional<at::Tensor>());
  }
  value = list;
  return true;
}

// Copies the list before it changes it, since the caller keeps its own.
bool replace_elements(const Op& op, size_t index, c10::IValue& value) {
  bool changed = false;
  const auto list = value.toListRef().vec();
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].isNone() || !list[i].toTensor().defined()) {
      continue;
    }
    const at::Tensor& tensor = list[i].toTensor();
    if (!tensor.is_privateuseone()) {
      if (value.isTensorList()) {
        device_mismatch(op, index, tensor.device());
      }
      auto copied = value.toOptionalTensorList().copy(); // an index on the CPU
      copied.set(i, move_to_device(op, index, tensor));
      value = copied;
      changed = true;
    } else if (is_lazy(tensor) && value.isTensorList()) {
      auto copied = value.toTensorList().copy();
      copied.set(i, resolve(tensor));
      value = copied;
      changed = true;
    }
  }
  return changed;
}

} // namespace

c10::DeviceIndex device_of_call(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (device_count() == 1) {
    return 0;
  }
  c10::DeviceIndex found = -1;
  const auto check = [&](size_t argument, const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_privateuseone()) {
      return;
    }
    const auto device = value.toTensor().device();
    if (found >= 0 && found != device.index()) {
      device_mismatch(op, argument, device, {c10::kPrivateUse1, found});
    }
    found = device.index();
  };
  std::optional<c10::DeviceIndex> requested;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    if (value.isDevice()) {
      requested = resolve_device(value.toDevice().index());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const auto& element : value.toListRef()) {
        check(i, element);
      }
    } else {
      check(i, value);
    }
  }
  return requested.value_or(found);
}

bool replace_arguments(const Op& op, std::span<c10::IValue> arguments) {
  bool changed = compares_in_default_dtype(op, arguments) && promote_compared(op, arguments);
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    auto& value = arguments[i];
    if (op.arguments[i].kind == ArgumentKind::tensor) {
      changed = replace_tensor(op, i, value) || changed;
    } else if (op.arguments[i].kind == ArgumentKind::tensor_list && !value.isNone()) {
      changed = replace_list_type(value) || changed;
      changed = replace_elements(op, i, value) || changed;
    }
  }
  return changed;
}

bool read_call(BoxedCall& call, const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  call.key.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const auto& value = arguments[i];
    const auto kind = op.arguments[i].kind;
    if (kind == ArgumentKind::ignored) {
      continue;
    }
    if (kind == ArgumentKind::tensor) {
      if (!add_tensor_argument(call, op.arguments[i], value)) {
        return false;
      }
    } else if (value.isNone()) {
      call.key.push_back(tagged(Tag::none, 0));
    } else if (kind == ArgumentKind::scalar || kind == ArgumentKind::scalar_constant) {
      add_scalar(call, kind == ArgumentKind::scalar_constant, value);
    } else if (kind == ArgumentKind::tensor_list) {
      if (!add_tensor_list(call, value)) {
        return false;
      }
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
  return true;
}

} // namespace ftm
