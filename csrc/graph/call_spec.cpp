#include "graph/call_spec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace ftm {
namespace {

// Collects words that determine a value: equal words mean equal values.
class WordWriter {
 public:
  void add(uint64_t word) { words_.push_back(word); }
  void add(std::string_view text) {
    add(text.size());
    for (size_t start = 0; start < text.size(); start += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + start, std::min<size_t>(8, text.size() - start));
      add(word);
    }
  }
  void add(c10::IntArrayRef values) {
    add(values.size());
    for (const int64_t value : values) {
      add(static_cast<uint64_t>(value));
    }
  }
  void add(const ValueType& type) {
    add(static_cast<uint64_t>(type.dtype));
    add(c10::IntArrayRef(type.sizes));
  }
  // Adds an attribute. Throws NotImplementedError for a type that traces do not support.
  void add(const c10::Argument& argument, const c10::IValue& value) {
    add(std::string_view(value.tagKind()));
    if (value.isBool()) {
      add(static_cast<uint64_t>(value.toBool()));
    } else if (value.isInt()) {
      add(static_cast<uint64_t>(value.toInt()));
    } else if (value.isDouble()) {
      add(std::bit_cast<uint64_t>(value.toDouble()));
    } else if (value.isString()) {
      add(std::string_view(value.toStringRef()));
    } else if (value.isIntList()) {
      add(c10::IntArrayRef(value.toIntVector()));
    } else if (value.isDoubleList()) {
      const auto numbers = value.toDoubleVector();
      add(numbers.size());
      for (const double number : numbers) {
        add(std::bit_cast<uint64_t>(number));
      }
    } else if (value.isBoolList()) {
      const auto flags = value.toBoolList();
      add(flags.size());
      for (const bool flag : flags) {
        add(static_cast<uint64_t>(flag));
      }
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(
          value.isNone(), "ftm cannot record argument '", argument.name(), "' of type ",
          argument.real_type()->str());
    }
  }
  std::vector<uint64_t> take() { return std::move(words_); }

 private:
  std::vector<uint64_t> words_;
};

} // namespace

bool is_recorded(const c10::Argument& argument) {
  static const std::array<std::string_view, 5> omitted = {
      "device", "layout", "pin_memory", "generator", "non_blocking"};
  return std::find(omitted.begin(), omitted.end(), argument.name()) == omitted.end();
}

bool CallSpec::has_operands(size_t argument) const {
  const auto is_of_argument = [&](const OperandSlot& slot) {
    return slot.argument == static_cast<int32_t>(argument);
  };
  return tensor_lists[argument] >= 0 || std::any_of(slots.begin(), slots.end(), is_of_argument);
}

std::vector<uint64_t> CallSpec::words() const {
  WordWriter words;
  words.add(name);
  for (const auto& slot : slots) {
    words.add(static_cast<uint64_t>(slot.kind));
    words.add(
        static_cast<uint64_t>(static_cast<uint32_t>(slot.argument)) << 32 |
        static_cast<uint32_t>(slot.element));
  }
  if (kind == Kind::aten) {
    const auto& schema = handle().schema().arguments();
    for (size_t i = 0; i < schema.size(); ++i) {
      if (!is_recorded(schema[i])) {
        continue;
      }
      if (has_operands(i)) {
        words.add(static_cast<uint64_t>(tensor_lists[i]));
      } else {
        words.add(schema[i], arguments[i]);
      }
    }
  }
  words.add(c10::IntArrayRef(sizes));
  words.add(c10::IntArrayRef(strides));
  words.add(static_cast<uint64_t>(offset));
  for (const auto& result : results) {
    words.add(result.type);
  }
  return words.take();
}

void CallSpec::finish() {
  for (const auto& slot : slots) {
    ++(slot.kind == OperandSlot::Kind::value ? values : scalars);
  }
  for (const uint64_t word : words()) {
    hash.add(word);
  }
  if (kind != Kind::view && kind != Kind::bitcast && !results.empty()) {
    Hash128 op_hash;
    op_hash.add(name);
    op_hash.add(static_cast<uint64_t>(results[0].type.dtype));
    signature = static_cast<uint32_t>(op_hash.low) | 1;
  }
}

} // namespace ftm
