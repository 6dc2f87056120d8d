#include "ops/call_on_values.h"

#include "graph/pending_trace.h"
#include "ops/make_call_spec.h"

#include <ATen/EmptyTensor.h>

#include <bit>

namespace ftm {
namespace {

// First word of the keys of calls on values, which differs from the first word of all other keys.
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

// Bits of a runtime scalar: f64 for floats, i64 for integers.
uint64_t scalar_bits(const at::Scalar& value) {
  return value.isFloatingPoint() ? std::bit_cast<uint64_t>(value.toDouble())
                                 : static_cast<uint64_t>(value.toLong());
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
  CallSpecPtr spec = op.find_spec(key, hash);
  if (!spec) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& type = type_of(values[i]);
      arguments[operands[i]] = at::detail::empty_meta(type.sizes, type.dtype, {}, {}, {}, {});
    }
    spec = make_call_spec(op, arguments, {dense_result(std::move(result))}, {-1});
    op.insert_spec(key, hash, spec);
  }
  return add_call(op.kind, std::move(spec), Operands(values), {});
}

Value call_with_scalar(
    Op& op, std::vector<c10::IValue> arguments, int32_t scalar, const at::Scalar& value,
    ValueType result) {
  Key key;
  key.push_back(kOnValues);
  key.push_back(value.isFloatingPoint());
  for (const auto& argument : arguments) {
    add_attribute(key, argument);
  }
  const uint64_t hash = hash_words(key.data(), key.size());
  CallSpecPtr spec = op.find_spec(key, hash);
  if (!spec) {
    arguments[scalar] = value;
    spec = make_call_spec(op, arguments, {dense_result(std::move(result))}, {-1});
    op.insert_spec(key, hash, spec);
  }
  return add_call(op.kind, std::move(spec), {}, {scalar_bits(value)});
}

Value zeros(const ValueType& type) {
  static Op& op = op_named("aten::zeros");
  return call_on_values(
      op, {at::IntArrayRef(type.sizes), type.dtype, c10::IValue(), c10::IValue(), c10::IValue()},
      {}, {}, type);
}

Value converted(Value value, at::ScalarType dtype) {
  const auto& type = type_of(value);
  if (type.dtype == dtype) {
    return value;
  }
  static Op& op = op_named("aten::_to_copy");
  std::vector<c10::IValue> arguments(7);
  arguments[1] = dtype;
  arguments[5] = false;
  ValueType result = type;
  result.dtype = dtype;
  return call_on_values(op, std::move(arguments), {0}, {value}, result);
}

Value broadcast(Value value, c10::IntArrayRef sizes) {
  const auto& type = type_of(value);
  if (type.sizes == sizes) {
    return value;
  }
  static Op& op = op_named("aten::expand");
  return call_on_values(
      op, {c10::IValue(), sizes, false}, {0}, {value}, {type.dtype, c10::DimVector(sizes)});
}

} // namespace ftm
