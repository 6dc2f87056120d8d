#include "graph/call_spec_text.h"

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
    text += ".0"; // so that the parser reads a float, not an integer
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
    case at::MemoryFormat::Contiguous: return "\"contiguous_format\"";
    case at::MemoryFormat::Preserve: return "\"preserve_format\"";
    case at::MemoryFormat::ChannelsLast: return "\"channels_last\"";
    default: return "\"channels_last_3d\"";
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

bool is_printed(const c10::Argument& argument) {
  static const std::array<std::string_view, 5> omitted = {
      "device", "layout", "pin_memory", "generator", "non_blocking"};
  for (const auto& name : omitted) {
    if (argument.name() == name) {
      return false;
    }
  }
  return true;
}

} // namespace

void render_call(
    CallSpec& spec, const std::vector<std::vector<OperandMark>>& operands, bool random) {
  const auto& arguments = spec.handle().schema().arguments();
  std::string part = spec.name + "(";
  const auto add_slot = [&](OperandSlot slot) {
    spec.slots.push_back(slot);
    spec.text_parts.push_back(std::move(part));
    part.clear();
  };
  bool first = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_printed(arguments[i])) {
      continue;
    }
    part += (first ? "" : ", ") + arguments[i].name() + "=";
    first = false;
    const auto& marks = operands[i];
    const bool is_list =
        unwrapped(arguments[i].type()).kind() == c10::TypeKind::ListType || marks.size() > 1;
    if (marks.empty()) {
      part += spec.tensor_lists[i] == 0 ? "[]" : attribute_text(arguments[i], spec.arguments[i]);
      continue;
    }
    if (is_list) {
      part += "[";
    }
    for (size_t j = 0; j < marks.size(); ++j) {
      part += j == 0 ? "" : ",";
      if (!marks[j].present) {
        part += "none";
        continue;
      }
      add_slot({marks[j].kind, static_cast<int32_t>(i), is_list ? static_cast<int32_t>(j) : -1});
    }
    if (is_list) {
      part += "]";
    }
  }
  if (random) {
    part += first ? "seed=" : ", seed=";
    add_slot({OperandSlot::Kind::scalar_int, -1, 0});
    part += ", offset=";
    add_slot({OperandSlot::Kind::scalar_int, -1, 1});
  }
  spec.text_parts.push_back(part + ")");
}

} // namespace ftm
