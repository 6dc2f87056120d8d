// Text of a call's form: the trace's syntax for attributes.
#include "graph/form.h"

#include <array>
#include <charconv>
#include <cmath>

namespace ftm {
namespace {

std::string float_text(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0"; // a float stays a float when it is read back
  }
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + '"';
}

const char* memory_format_text(int64_t format) {
  switch (static_cast<at::MemoryFormat>(format)) {
    case at::MemoryFormat::Contiguous:
      return "\"contiguous_format\"";
    case at::MemoryFormat::Preserve:
      return "\"preserve_format\"";
    case at::MemoryFormat::ChannelsLast:
      return "\"channels_last\"";
    default:
      return "\"channels_last_3d\"";
  }
}

template <typename List, typename Element>
std::string list_text(const List& list, Element element) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    text += (i == 0 ? "" : ",") + element(list.get(i));
  }
  return text + "]";
}

const c10::Type& unwrapped(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    return *optional->getElementType();
  }
  return *type;
}

std::string attribute_text(const c10::Argument& argument, const c10::IValue& value) {
  if (value.isNone()) {
    return "none";
  }
  const c10::TypePtr& real = argument.real_type();
  const auto kind = unwrapped(real).kind();
  if (kind == c10::TypeKind::ScalarTypeType) {
    return dtype_token(value.toScalarType());
  }
  if (kind == c10::TypeKind::MemoryFormatType) {
    return memory_format_text(value.toInt());
  }
  if (value.isBool()) {
    return value.toBool() ? "true" : "false";
  }
  if (value.isInt()) {
    return std::to_string(value.toInt());
  }
  if (value.isDouble()) {
    return float_text(value.toDouble());
  }
  if (value.isString()) {
    return quoted(value.toStringRef());
  }
  if (value.isIntList()) {
    return list_text(value.toIntList(), [](int64_t v) { return std::to_string(v); });
  }
  if (value.isDoubleList()) {
    return list_text(value.toDoubleList(), [](double v) { return float_text(v); });
  }
  if (value.isBoolList()) {
    return list_text(value.toBoolList(), [](bool v) { return std::string(v ? "true" : "false"); });
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "ftm cannot record argument '", argument.name(), "' of type ", real->str());
}

bool printed(const c10::Argument& argument) {
  static const std::array<std::string_view, 5> dropped = {
      "device", "layout", "pin_memory", "generator", "non_blocking"};
  for (const auto& name : dropped) {
    if (argument.name() == name) {
      return false;
    }
  }
  return true;
}

// "[64,64]"
std::string extents(c10::IntArrayRef values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  }
  return text + "]";
}

} // namespace

const char* dtype_token(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "f64";
    case at::kFloat:
      return "f32";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    case at::kLong:
      return "i64";
    case at::kInt:
      return "i32";
    case at::kShort:
      return "i16";
    case at::kChar:
      return "i8";
    case at::kByte:
      return "u8";
    case at::kUInt16:
      return "u16";
    case at::kUInt32:
      return "u32";
    case at::kUInt64:
      return "u64";
    case at::kFloat8_e4m3fn:
      return "f8e4m3fn";
    case at::kFloat8_e5m2:
      return "f8e5m2";
    case at::kFloat8_e4m3fnuz:
      return "f8e4m3fnuz";
    case at::kFloat8_e5m2fnuz:
      return "f8e5m2fnuz";
    case at::kFloat8_e8m0fnu:
      return "f8e8m0fnu";
    case at::kBool:
      return "i1";
    case at::kComplexFloat:
      return "c64";
    case at::kComplexHalf:
      return "c32";
    case at::kComplexDouble:
      return "c128";
    default:
      return c10::toString(dtype);
  }
}

std::string type_text(const ValueType& type) {
  if (type.dtype == at::ScalarType::Undefined) {
    return "none";
  }
  return dtype_token(type.dtype) + extents(type.sizes);
}

void render_call(Form& form, const std::vector<std::vector<OperandMark>>& operands, bool random) {
  const auto& arguments = form.op->schema().arguments();
  std::string piece = form.name + "(";
  const auto add_slot = [&](Slot slot) {
    form.slots.push_back(slot);
    form.pieces.push_back(std::move(piece));
    piece.clear();
  };
  bool first = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!printed(arguments[i])) {
      continue;
    }
    piece += (first ? "" : ", ") + arguments[i].name() + "=";
    first = false;
    const auto& marks = operands[i];
    const bool is_list = unwrapped(arguments[i].type()).kind() == c10::TypeKind::ListType || marks.size() > 1;
    if (marks.empty()) {
      piece += form.tensor_lists[i] == 0 ? "[]" : attribute_text(arguments[i], form.arguments[i]);
      continue;
    }
    if (is_list) {
      piece += "[";
    }
    for (size_t j = 0; j < marks.size(); ++j) {
      piece += j == 0 ? "" : ",";
      if (!marks[j].present) {
        piece += "none";
        continue;
      }
      add_slot({marks[j].kind, static_cast<int32_t>(i), is_list ? static_cast<int32_t>(j) : -1});
    }
    if (is_list) {
      piece += "]";
    }
  }
  if (random) {
    piece += first ? "seed=" : ", seed=";
    add_slot({Slot::Kind::scalar_int, -1, 0});
    piece += ", offset=";
    add_slot({Slot::Kind::scalar_int, -1, 1});
  }
  form.pieces.push_back(piece + ")");
}

void Form::finish() {
  for (const auto& slot : slots) {
    ++(slot.kind == Slot::Kind::value ? values : scalars);
  }
  for (const auto& piece : pieces) {
    hash.add(piece);
  }
  for (const auto& slot : slots) {
    hash.add(static_cast<uint64_t>(slot.kind));
  }
  for (const auto& result : results) {
    hash.add(type_text(result.type));
  }
}

namespace {

FormPtr special_form(
    Form::Kind kind, const char* name, std::vector<const char*> operands, std::string attributes,
    ValueType result) {
  auto form = c10::make_intrusive<Form>();
  form->kind = kind;
  form->name = name;
  std::string piece = std::string(name) + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    form->pieces.push_back(piece + operands[i] + "=");
    form->slots.push_back({Slot::Kind::value, static_cast<int32_t>(i), -1});
    piece = ", ";
  }
  form->pieces.push_back(", " + attributes + ")");
  ResultType type;
  type.type = std::move(result);
  form->results.push_back(std::move(type));
  return form;
}

std::string window_text(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  return "sizes=" + extents(sizes) + ", strides=" + extents(strides) +
      ", offset=" + std::to_string(offset);
}

} // namespace

FormPtr view_form(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  auto form = special_form(
      Form::Kind::view, "ftm.view", {"base"}, window_text(sizes, strides, offset),
      {base.dtype, c10::DimVector(sizes)});
  form->sizes = sizes;
  form->strides = strides;
  form->offset = offset;
  form->finish();
  return form;
}

FormPtr update_form(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  auto form = special_form(
      Form::Kind::update, "ftm.update", {"base", "value"}, window_text(sizes, strides, offset), base);
  form->sizes = sizes;
  form->strides = strides;
  form->offset = offset;
  form->finish();
  return form;
}

FormPtr bitcast_form(const ValueType& base, at::ScalarType dtype) {
  const int64_t bytes = base.numel() * static_cast<int64_t>(c10::elementSize(base.dtype));
  auto form = special_form(
      Form::Kind::bitcast, "ftm.bitcast", {"base"}, std::string("dtype=") + dtype_token(dtype),
      {dtype, {bytes / static_cast<int64_t>(c10::elementSize(dtype))}});
  form->finish();
  return form;
}

FormPtr layout_form(const ValueType& base, c10::IntArrayRef strides) {
  // Dimensions by falling stride are the order in memory. Dimensions of size 1 have no say in it; put
  // first, they keep their place by index.
  const auto rank = static_cast<int64_t>(base.sizes.size());
  c10::DimVector order(rank);
  for (int64_t i = 0; i < rank; ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  c10::DimVector row_major(rank), sizes(rank), view_strides(rank);
  int64_t stride = 1;
  for (int64_t i = rank - 1; i >= 0; --i) {
    row_major[i] = stride;
    stride *= base.sizes[i];
  }
  for (int64_t i = 0; i < rank; ++i) {
    sizes[i] = base.sizes[order[i]];
    view_strides[i] = row_major[order[i]];
  }
  auto form = view_form(base, sizes, view_strides, 0);
  form->layout_sizes = base.sizes;
  form->layout_strides = strides;
  return form;
}

} // namespace ftm
