#include "partition/choose_symbols.h"

#include "partition/varying_dims.h"
#include "partition/view_symbols.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace ftm {
namespace {

constexpr size_t kMostSymbols = 32;
constexpr int64_t kLeastSize = 1, kLeastOffset = 0;
constexpr uint64_t kAllDims = ~uint64_t{0};

constexpr std::array<std::string_view, 4> kFactories = {
    "aten::full", "aten::zeros", "aten::ones", "aten::arange.start_step"};
constexpr std::array<std::string_view, 3> kFactorySizes = {"size", "start", "end"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether it is the dtype of images, sounds and quantized tensors, whose sizes usually are fixed.
bool is_narrow(c10::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/false) && c10::elementSize(dtype) < 4;
}

// Whether it is the dtype of tokens, indices and masks, whose sizes usually vary.
bool is_counted(c10::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true) && !is_narrow(dtype);
}

bool has_dim(uint64_t mask, int64_t dim) {
  return dim >= 0 && dim < 64 && (mask >> dim & 1) != 0;
}

// Equal numbers of one kind become one symbol.
enum class NumberKind : int64_t { extent, rows, stride, created, offset };

class SymbolChooser {
 public:
  SymbolChooser(const Trace& trace, const std::vector<Input>& inputs, SymbolChoice choice)
      : trace_(trace),
        inputs_(inputs),
        choice_(choice),
        smallest_(choice.any_size ? 1 : 2),
        varies_(varying_dimensions(trace.parameters, inputs, choice.trains)),
        views_(trace.parameters.size()) {}

  SymbolicSizes choose() {
    find_readers();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      choose_parameter(i);
    }
    if (!choice_.trains) {
      choose_created();
    }
    if (!choice_.trains && !chosen_.symbols.empty()) {
      choose_written();
    }
    return chosen_.symbols.size() > kMostSymbols ? SymbolicSizes{} : std::move(chosen_);
  }

 private:
  using DimByValue = std::unordered_map<uint64_t, int64_t>;

  // Returns the dimension of a value; -1 if it has none.
  static int64_t dim_in(const DimByValue& dims, uint64_t value) {
    const auto found = dims.find(value);
    return found == dims.end() ? -1 : found->second;
  }

  // A view of a parameter from its first element on.
  struct View {
    size_t call;
    uint64_t value; // word of its number
  };

  // Finds the views of parameters, and what is concatenated.
  void find_readers() {
    int64_t result = 0;
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const auto& [spec, operands] = trace_.calls[i];
      if (spec->kind == CallSpec::Kind::view && spec->offset == 0 && !spec->sizes.empty() &&
          operands[0].is_parameter() && trace_.parameters[operands[0].index()].sizes.size() == 1) {
        views_[operands[0].index()].push_back({i, ValueNumber::result(result).word()});
      }
      if (spec->concatenates == Concatenation::dim &&
          spec->tensor_lists[0] == static_cast<int64_t>(operands.size())) {
        const auto rank = static_cast<int64_t>(spec->results[0].type.sizes.size());
        const int64_t dim = spec->arguments[1].toInt();
        for (const auto operand : operands) {
          appended_[operand.word()] = dim < 0 ? dim + rank : dim;
        }
        grown_[operands[0].word()] = dim < 0 ? dim + rank : dim;
      }
      result += static_cast<int64_t>(spec->results.size());
    }
  }

  // Returns the symbol of a number's kind and value.
  std::string symbol(std::vector<int64_t> kind, int64_t hint, int64_t least = kLeastSize) {
    kind.push_back(hint);
    const auto [found, is_new] = known_.try_emplace(std::move(kind));
    if (is_new) {
      found->second = "s" + std::to_string(chosen_.symbols.size());
      chosen_.symbols.push_back({hint, least});
    }
    return found->second;
  }

  // Sets a number, unless it is a literal.
  void set(int64_t index, const std::string& argument, int64_t element, std::string polynomial) {
    if (!polynomial.empty()) {
      chosen_.numbers.push_back({index, argument, element, std::move(polynomial)});
    }
  }

  // Returns the varying dimensions of what computed an input.
  uint64_t varying(size_t parameter, uint64_t computed) const {
    const auto dtype = trace_.parameters[parameter].dtype;
    if (is_narrow(dtype)) {
      return 0;
    }
    return choice_.any_size || (is_counted(dtype) && !choice_.trains) ? kAllDims : computed;
  }

  // Whether equal numbers of two parameters are equal by chance, as when training.
  bool are_independent() const { return choice_.trains && !choice_.any_size; }

  void choose_parameter(size_t i) {
    bool is_viewed = false;
    for (const auto& view : views_[i]) {
      is_viewed = choose_view(i, view, /*sets_extent=*/!is_viewed) || is_viewed;
    }
    if (is_viewed) {
      return;
    }
    const auto& type = trace_.parameters[i];
    const auto rank = static_cast<int64_t>(type.sizes.size());
    for (int64_t d = 0; d < rank; ++d) {
      if (is_varying_extent(i, d)) {
        const auto kind = static_cast<int64_t>(NumberKind::extent);
        const auto position = static_cast<int64_t>(i);
        auto name = are_independent()
                        ? symbol({kind, position, d}, type.sizes[d])
                        : symbol({kind, static_cast<int64_t>(type.dtype), rank, d}, type.sizes[d]);
        set(position, "", d, std::move(name));
      }
    }
  }

  bool is_varying_extent(size_t i, int64_t d) const {
    const auto& type = trace_.parameters[i];
    const auto last = static_cast<int64_t>(type.sizes.size()) - 1;
    const bool varies = has_dim(varying(i, varies_[i]), d);
    const auto value = ValueNumber::parameter(static_cast<int64_t>(i)).word();
    const bool is_appended = !choice_.trains && dim_in(appended_, value) == d;
    if (type.sizes[d] >= smallest_) {
      return varies || (is_appended && is_cache(i, d));
    }
    // Most sizes of 1 are always 1, except a text of one token and a cache of one row.
    const bool is_text =
        !choice_.trains && is_counted(type.dtype) && d == last && has_dim(varies_[i], d);
    return type.sizes[d] == 1 && (is_text || (is_appended && !is_narrow(type.dtype) &&
                                              (varies || !inputs_[i].buffer->is_from_cpu())));
  }

  // Whether a concatenation appends rows along dimension `d` to a parameter with some rows for each
  // of several heads.
  bool is_cache(size_t i, int64_t d) const {
    const auto value = ValueNumber::parameter(static_cast<int64_t>(i)).word();
    const auto& sizes = trace_.parameters[i].sizes;
    return dim_in(grown_, value) == d && sizes[0] == 1 &&
           c10::multiply_integers(sizes.begin(), sizes.begin() + d) > 1;
  }

  ViewedMemory memory_of(size_t i) const {
    const auto& buffer = *inputs_[i].buffer;
    const auto dtype = trace_.parameters[i].dtype;
    const uint64_t varies =
        varying(i, choice_.trains && buffer.is_from_cpu() ? 0 : buffer.varying_dims());
    if (buffer.shape().scalar_type() == dtype) {
      return {c10::DimVector(buffer.shape().sizes()), varies};
    }
    return {{static_cast<int64_t>(buffer.nbytes() / c10::elementSize(dtype))}, varies};
  }

  // Chooses the symbols of a view of a parameter. Returns whether there are any.
  bool choose_view(size_t i, const View& view, bool sets_extent) {
    const int64_t owner = are_independent() ? static_cast<int64_t>(i) : -1;
    const auto made = view_polynomials(
        *trace_.calls[view.call].spec, memory_of(i),
        choice_.trains ? -1 : dim_in(grown_, view.value), smallest_,
        [&](bool is_stride, int64_t value) {
          const auto kind = is_stride ? NumberKind::stride : NumberKind::rows;
          return symbol({static_cast<int64_t>(kind), owner}, value);
        });
    const auto call = static_cast<int64_t>(view.call);
    for (size_t d = 0; d < made.sizes.size(); ++d) {
      set(call, "sizes", static_cast<int64_t>(d), made.sizes[d]);
      set(call, "strides", static_cast<int64_t>(d), made.strides[d]);
    }
    if (sets_extent) {
      set(static_cast<int64_t>(i), "", 0, made.extent);
    }
    return !made.extent.empty();
  }

  // Sizes of tensors that the trace fills, unless an input has such a size: then the compiler
  // derives which one it is.
  void choose_created() {
    std::unordered_set<int64_t> given;
    for (const auto& known : chosen_.symbols) {
      given.insert(known.hint);
    }
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const auto& spec = *trace_.calls[i].spec;
      if (!contains(kFactories, spec.name)) {
        continue;
      }
      const auto& schema = spec.handle().schema().arguments();
      for (size_t a = 0; a < schema.size(); ++a) {
        const auto& value = spec.arguments[a];
        if (!contains(kFactorySizes, schema[a].name()) || spec.has_operands(a)) {
          continue;
        }
        const auto numbers = value.isInt()       ? std::vector<int64_t>{value.toInt()}
                             : value.isIntList() ? value.toIntVector()
                                                 : std::vector<int64_t>{};
        for (size_t k = 0; k < numbers.size(); ++k) {
          if (numbers[k] >= smallest_ && given.count(numbers[k]) == 0) {
            const auto element = static_cast<int64_t>(k);
            const auto place =
                value.isInt() ? -1 : element; // an extent's place tells it from others
            set(static_cast<int64_t>(i), schema[a].name(), element,
                symbol({static_cast<int64_t>(NumberKind::created), place}, numbers[k]));
          }
        }
      }
    }
  }

  // Offsets of writes, each a separate symbol.
  void choose_written() {
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const auto& spec = *trace_.calls[i].spec;
      if (spec.kind == CallSpec::Kind::update && !spec.sizes.empty() && spec.offset > 0) {
        const auto call = static_cast<int64_t>(i);
        set(call, "offset", 0,
            symbol({static_cast<int64_t>(NumberKind::offset), call}, spec.offset, kLeastOffset));
      }
    }
  }

  const Trace& trace_;
  const std::vector<Input>& inputs_;
  const SymbolChoice choice_;
  const int64_t smallest_; // number that becomes a symbol without a special reason
  const std::vector<uint64_t> varies_; // by parameter, from the programs that computed it
  std::vector<std::vector<View>> views_; // by parameter
  DimByValue appended_; // dimension along which a value is concatenated
  DimByValue grown_; // the same of values that are first, to which others are appended
  std::map<std::vector<int64_t>, std::string> known_;
  SymbolicSizes chosen_;
};

} // namespace

SymbolicSizes choose_symbols(
    const Trace& trace, const std::vector<Input>& inputs, SymbolChoice choice) {
  return SymbolChooser(trace, inputs, choice).choose();
}

} // namespace ftm
