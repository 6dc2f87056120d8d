#include "dispatch/infer_call_spec.h"

#include "eager_checks/call_checks.h"
#include "eager_checks/call_kinds.h"
#include "eager_checks/index_checks.h"
#include "shape_inference/result_strides.h"
#include "shape_inference/meta_calls.h"
#include "ops/make_call_spec.h"
#include "ops/compiled_ops.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace ftm {
namespace {

// Whether the CPU kernel must infer the result, because the meta kernel follows CUDA or is
// incomplete.
bool needs_cpu_inference(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  return mixes_dtypes_of_gradients(op, arguments) ||
         is_any_call(op.traits->asks_cpu, op, arguments);
}

CallSpecPtr fallback_spec() {
  auto spec = c10::make_intrusive<CallSpec>();
  spec->fallback = true;
  return spec;
}

// Whether all operands have the result's sizes and are contiguous. Kernels then ignore the strides
// of dimensions of size 1.
bool have_same_layout(c10::ArrayRef<c10::IValue> arguments, const at::Tensor& result) {
  return std::all_of(arguments.begin(), arguments.end(), [&](const c10::IValue& argument) {
    return !argument.isTensor() || !argument.toTensor().defined() ||
           (argument.toTensor().sizes() == result.sizes() && argument.toTensor().is_contiguous());
  });
}

ResultType result_type(const at::Tensor& tensor, c10::ArrayRef<c10::IValue> arguments) {
  ResultType result;
  if (!tensor.defined()) {
    return result;
  }
  result.type = {tensor.scalar_type(), c10::DimVector(tensor.sizes())};
  result.strides = tensor.strides();
  // Compare also the strides of dimensions of size 1, which distinguish memory formats.
  result.contiguous =
      tensor.strides() == c10::IntArrayRef(c10::contiguous_strides(tensor.sizes())) ||
      (tensor.numel() != 0 && (!tensor.is_non_overlapping_and_dense() ||
                               (tensor.is_contiguous() && have_same_layout(arguments, tensor))));
  return result;
}

// Returns the bit set of dtypes of the tensors and complex numbers that the call reads.
uint64_t operand_dtypes(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  uint64_t dtypes = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && !is_wrapped_number(tensor)) {
      dtypes |= uint64_t{1} << static_cast<int>(tensor.scalar_type());
    }
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    if (op.arguments[i].out) {
      continue;
    }
    if (is_complex_number(argument)) {
      dtypes |= uint64_t{1} << static_cast<int>(at::kComplexDouble);
    } else if (argument.isTensor()) {
      add(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        add(tensor);
      }
    } else if (argument.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorVector()) {
        if (tensor) {
          add(*tensor);
        }
      }
    }
  }
  return dtypes;
}

// Whether a constant Scalar is complex, for which traces have no syntax.
bool has_complex_constant(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op.arguments[i].kind == ArgumentKind::scalar_constant && arguments[i].isComplexDouble()) {
      return true;
    }
  }
  return false;
}

// Whether a real result is computed from a complex number. Eager allows that only if the imaginary
// part is zero, on which the spec does not depend.
bool is_real_result_of_complex(
    c10::ArrayRef<c10::IValue> arguments, const std::vector<ResultType>& results) {
  const auto dtype = results.empty() ? at::kBool : results[0].type.dtype;
  return dtype != at::kBool && !at::isComplexType(dtype) &&
         std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
           return value.isComplexDouble();
         });
}

// Whether the op's record supports the dtypes of its results: those that most ops do not support,
// and all if the operands are only numbers.
bool supports_results(const Op& op, const std::vector<ResultType>& results, bool only_numbers) {
  static constexpr auto bit = [](at::ScalarType dtype) {
    return uint64_t{1} << static_cast<int>(dtype);
  };
  uint64_t dtypes = 0;
  for (const auto& result : results) {
    const auto dtype = result.type.dtype;
    if (dtype != at::ScalarType::Undefined && (only_numbers || !dtype_info(dtype).in_most_ops)) {
      dtypes |= bit(dtype);
    }
  }
  return dtypes == 0 || is_compiled(op.name, dtypes);
}

// Whether the call indexes by a mask, so that the result's size depends on the number of ones.
bool has_mask_index(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!op.cpu_indices || !arguments[1].isOptionalTensorList()) {
    return false;
  }
  int64_t masks = 0;
  int64_t indices = 0;
  bool bytes = false;
  for (const std::optional<at::Tensor>& index : arguments[1].toOptionalTensorVector()) {
    if (index && index->defined()) {
      ++indices;
      bytes = bytes || index->scalar_type() == at::kByte;
      masks += index->scalar_type() == at::kBool || index->scalar_type() == at::kByte;
    }
  }
  // Writing by a single mask has a result of known shape. (With no values, the write is correct
  // only if the mask has no ones.)
  const bool writes = writes_at_indices(op) && masks == 1 && indices == 1 && !bytes &&
                      arguments[2].toTensor().numel() != 0;
  return masks != 0 && !writes;
}

// A concatenation of one non-empty tensor with empty ones (the first keys of a cache) is a copy of
// that tensor. Returns its index in the list, or -1.
int32_t copied_operand(const CallSpec& spec, c10::ArrayRef<c10::IValue> arguments) {
  if (spec.concatenates == Concatenation::none || !arguments[0].isTensorList()) {
    return -1;
  }
  const auto tensors = arguments[0].toTensorVector();
  const auto has_elements = [](const at::Tensor& tensor) { return tensor.numel() != 0; };
  const auto found = std::find_if(tensors.begin(), tensors.end(), has_elements);
  if (found == tensors.end() || std::any_of(found + 1, tensors.end(), has_elements)) {
    return -1;
  }
  const auto& type = spec.results[0].type;
  const bool is_same = found->scalar_type() == type.dtype && found->numel() == type.numel();
  return is_same ? static_cast<int32_t>(found - tensors.begin()) : -1;
}

// Returns the arguments of the functional op: those of the user's op without out= tensors.
// Arguments for the placement of the result are derived from the out= tensor.
std::vector<c10::IValue> functional_arguments(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.written.empty()) {
    return arguments.vec();
  }
  const auto& declared = op.handle.schema().arguments();
  std::vector<c10::IValue> kept;
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!op.arguments[i].out) {
      kept.push_back(arguments[i]);
    }
  }
  const auto& functional = op.functional.schema().arguments();
  const c10::IValue& out = arguments[op.written[0]];
  if (functional.size() == kept.size()) {
    for (size_t i = 0; i < kept.size() && op.arguments[op.written[0]].out; ++i) {
      if (functional[i].name() == "dtype" && kept[i].isNone()) {
        kept[i] = out.toTensor().scalar_type(); // reductions and scans take the dtype of out=
      }
    }
    return kept;
  }
  std::vector<c10::IValue> result;
  size_t next = 0;
  for (const auto& argument : functional) {
    const auto& name = argument.name();
    if (name == "dtype") {
      result.emplace_back(out.toTensor().scalar_type());
    } else if (name == "device") {
      result.emplace_back(out.toTensor().device());
    } else if (name == "layout" || name == "pin_memory") {
      result.emplace_back();
    } else {
      result.push_back(kept[next++]);
    }
  }
  return result;
}

// Sets the results that the call's output_mask excludes to undefined.
void remove_masked(
    const Op& op, c10::ArrayRef<c10::IValue> functional, std::vector<ResultType>& results) {
  const auto mask = argument_named(op.functional.schema(), functional, "output_mask")->toBoolList();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!mask[i]) {
      results[i] = ResultType();
    }
  }
}

} // namespace

CallSpecPtr infer_call_spec(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  // If the op writes to its arguments, call that op's meta kernel first, for errors about the
  // written tensors.
  check_call(op, arguments);
  if (std::any_of(op.written.begin(), op.written.end(), [&](int32_t i) {
        return !arguments[i].isTensor();
      })) {
    return fallback_spec(); // writes to a list of tensors, as gradient scalers do
  }
  if (!op.data_dependent && !op.written.empty()) {
    auto stack = with_tensors_replaced(arguments, meta_like, c10::kMeta);
    std::vector<at::Tensor> written;
    for (const int32_t index : op.written) {
      if (op.arguments[index].out) {
        // Empty, since resizing a tensor with elements gives a warning. That is given when the
        // user's tensor is resized.
        stack[index] =
            at::Tensor(at::detail::empty_meta({0}, stack[index].toTensor().scalar_type()));
      }
      written.push_back(stack[index].toTensor());
    }
    if (call_on_meta(op, op.handle, stack, arguments)) {
      for (size_t i = 0; i < written.size(); ++i) {
        const int32_t index = op.written[i];
        if (!op.arguments[index].out && written[i].sizes() != arguments[index].toTensor().sizes()) {
          // A meta kernel that is derived from the out= op resizes tensors that eager does not.
          throw_as_eager(op, arguments);
        }
      }
    }
  }
  const uint64_t operands = operand_dtypes(op, arguments);
  if (!op.has_functional || op.data_dependent || has_complex_constant(op, arguments) ||
      has_mask_index(op, arguments) || !is_compiled(op.name, operands) ||
      compares_in_default_dtype(op, arguments)) {
    return fallback_spec();
  }
  const auto functional = functional_arguments(op, arguments);
  auto stack = with_tensors_replaced(functional, meta_like, c10::kMeta);
  const bool inferred_on_cpu =
      needs_cpu_inference(op, arguments) && call_on_zeros(op.functional, functional, stack);
  if (!inferred_on_cpu && !call_on_meta(op, op.functional, stack, arguments) &&
      !call_on_zeros(op.functional, functional, stack)) {
    return fallback_spec();
  }
  std::vector<ResultType> results;
  std::vector<int32_t> list_lengths;
  for (const auto& value : stack) {
    if (value.isTensor() || value.isNone()) {
      results.push_back(result_type(value.isNone() ? at::Tensor() : value.toTensor(), arguments));
      list_lengths.push_back(-1);
    } else if (value.isTensorList() && op.written.empty()) {
      const auto tensors = value.toTensorVector();
      list_lengths.push_back(static_cast<int32_t>(tensors.size()));
      for (const auto& tensor : tensors) {
        results.push_back(result_type(tensor, arguments));
      }
    } else {
      return fallback_spec(); // returns a number, which requires a computed value
    }
  }
  if (op.traits->masks_results) {
    remove_masked(op, functional, results);
  }
  check_results(op, arguments, functional, results);
  check_integer_dtypes(op, arguments, operands, results);
  lay_out_as_eager(op, arguments, functional, results);
  if (!supports_results(op, results, operands == 0) ||
      is_real_result_of_complex(functional, results)) {
    return fallback_spec();
  }
  // Of out= tensors; the strides apply to those that are resized.
  std::vector<c10::DimVector> written_sizes, written_strides;
  if (!op.written.empty() && op.arguments[op.written[0]].out) {
    for (size_t i = 0; i < op.written.size(); ++i) {
      written_sizes.push_back(results[i].type.sizes);
      written_strides.push_back(results[i].contiguous ? c10::DimVector() : results[i].strides);
    }
  }
  auto spec = make_call_spec(op, functional, std::move(results), std::move(list_lengths));
  spec->written_sizes = std::move(written_sizes);
  spec->written_strides = std::move(written_strides);
  spec->copied = op.written.empty() ? copied_operand(*spec, functional) : -1;
  const auto computed = spec->results.empty() ? at::kBool : spec->results[0].type.dtype;
  if (op.has_numbers && may_overflow(computed)) {
    spec->fitted = computed;
  }
  for (size_t i = 0; i < op.written.size(); ++i) {
    const auto& tensor = arguments[op.written[i]].toTensor();
    const auto& result = spec->results[i].type;
    const c10::IntArrayRef sizes =
        spec->written_sizes.empty() ? tensor.sizes() : c10::IntArrayRef(spec->written_sizes[i]);
    TORCH_CHECK(
        sizes == result.sizes, "output with shape ", tensor.sizes(),
        " doesn't match the broadcast shape ", c10::IntArrayRef(result.sizes));
    TORCH_CHECK(
        c10::canCast(result.dtype, tensor.scalar_type()), "result type ", result.dtype,
        " can't be cast to the desired output type ", tensor.scalar_type());
  }
  return spec;
}

} // namespace ftm
