// Calls that kernels make on values of the graph, not on tensors: their result's type is known.
#include "recorder/call.h"
#include "recorder/infer_form.h"
#include "recorder/record.h"

#include <ATen/EmptyTensor.h>

namespace ftm {
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
