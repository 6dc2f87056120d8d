#include "eager/known_indices.h"

#include "eager/trial_calls.h"
#include "tensor/variable.h"

#include <algorithm>
#include <unordered_map>

namespace ftm {
namespace {

// What the indices of an op lie in. They are its argument `index`, the places are in its first argument.
struct PlaceRule {
  enum class Extent : uint8_t { first, dim, classes, all, each };
  Extent extent;
  size_t index;
  bool wraps; // from the end, where negative
};

const std::unordered_map<std::string, PlaceRule>& place_rules() {
  using Extent = PlaceRule::Extent;
  static const std::unordered_map<std::string, PlaceRule> rules = {
      {"aten::embedding", {Extent::first, 1, false}},
      {"aten::gather", {Extent::dim, 2, false}},
      {"aten::index", {Extent::each, 1, true}},
      {"aten::index_add", {Extent::dim, 2, false}},
      {"aten::index_copy", {Extent::dim, 2, false}},
      {"aten::index_fill", {Extent::dim, 2, true}},
      {"aten::index_put", {Extent::each, 1, true}},
      {"aten::index_reduce", {Extent::dim, 2, false}},
      {"aten::index_select", {Extent::dim, 2, false}},
      {"aten::nll_loss2d_forward", {Extent::classes, 1, false}},
      {"aten::nll_loss_forward", {Extent::classes, 1, false}},
      {"aten::put", {Extent::all, 1, true}},
      {"aten::scatter", {Extent::dim, 2, false}},
      {"aten::scatter_add", {Extent::dim, 2, false}},
      {"aten::scatter_reduce", {Extent::dim, 2, false}},
      {"aten::take", {Extent::all, 1, true}},
  };
  return rules;
}

bool may_be_index(at::ScalarType dtype) {
  return dtype == at::kLong || dtype == at::kInt;
}

bool is_index(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone() && tensor.numel() != 0 && may_be_index(tensor.scalar_type());
}

// On buffers whose elements came from the CPU: their least and their greatest, found once.
struct FromCpu final : torch::lazy::BackendData::Info {
  std::once_flag found;
  int64_t low = 0, high = 0;
};

template <typename T>
void find_range(FromCpu& info, const Buffer& buffer) {
  const auto* first = static_cast<const T*>(buffer.data());
  const auto [low, high] = std::minmax_element(first, first + buffer.nbytes() / sizeof(T));
  info.low = *low;
  info.high = *high;
}

const FromCpu& range_of(const Buffer& buffer) {
  auto& info = static_cast<FromCpu&>(*buffer.info());
  std::call_once(info.found, [&] {
    buffer.shape().scalar_type() == at::kLong ? find_range<int64_t>(info, buffer) : find_range<int32_t>(info, buffer);
  });
  return info;
}

// The tensor's buffer if its elements came from the CPU.
BufferPtr known_buffer(const at::Tensor& tensor) {
  const RecorderLock lock(recorder_mutex());
  const Value& value = variable_of(*tensor.unsafeGetTensorImpl()).value();
  if (!value.node || !trace_node(value).is_data) {
    return nullptr;
  }
  const auto& buffer = static_cast<const DataNode&>(trace_node(value)).buffer();
  return buffer->info() != nullptr ? buffer : nullptr;
}

at::Tensor known_elements(const BufferPtr& buffer, const at::Tensor& tensor) {
  return Buffer::as_cpu(buffer, tensor.scalar_type(), tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

struct Bounds {
  int64_t low, high; // high is the first outside
  std::optional<int64_t> ignored; // an element that is no index

  bool hold(int64_t element) const {
    return (element >= low && element < high) || element == ignored;
  }
};

template <typename T>
bool all_hold(const at::Tensor& elements, const Bounds& bounds) {
  const T* first = elements.const_data_ptr<T>();
  return std::all_of(first, first + elements.numel(), [&](T element) { return bounds.hold(element); });
}

// False if an element is known to lie outside.
bool may_hold(const at::Tensor& index, const Bounds& bounds) {
  if (!is_index(index)) {
    return true;
  }
  const BufferPtr buffer = known_buffer(index);
  if (!buffer) {
    return true;
  }
  if (buffer->shape().scalar_type() == index.scalar_type()) {
    const auto& range = range_of(*buffer); // of more than the index, if that is a view
    if (range.low >= bounds.low && range.high < bounds.high) {
      return true;
    }
  }
  const at::Tensor elements = known_elements(buffer, index).contiguous();
  return index.scalar_type() == at::kLong ? all_hold<int64_t>(elements, bounds) : all_hold<int32_t>(elements, bounds);
}

int64_t extent_of(const PlaceRule& rule, c10::ArrayRef<c10::IValue> arguments) {
  const auto& places = arguments[0].toTensor();
  switch (rule.extent) {
    case PlaceRule::Extent::first:
      return places.size(0);
    case PlaceRule::Extent::classes:
      return places.size(places.dim() == 1 ? 0 : 1);
    case PlaceRule::Extent::all:
      return places.numel();
    default:
      return places.dim() == 0 ? 1 : places.size(arguments[1].toInt());
  }
}

bool all_may_hold(const PlaceRule& rule, c10::ArrayRef<c10::IValue> arguments) {
  const auto bounds = [&](int64_t extent) -> Bounds { return {rule.wraps ? -extent : 0, extent, std::nullopt}; };
  if (rule.extent != PlaceRule::Extent::each) {
    Bounds wanted = bounds(extent_of(rule, arguments));
    if (rule.extent == PlaceRule::Extent::classes) {
      wanted.ignored = arguments[4].toInt(); // ignore_index
    }
    return may_hold(arguments[rule.index].toTensor(), wanted);
  }
  const auto& places = arguments[0].toTensor();
  const auto indices = arguments[rule.index].toOptionalTensorVector();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] && !may_hold(*indices[i], bounds(places.size(static_cast<int64_t>(i))))) {
      return false;
    }
  }
  return true;
}

at::Tensor known_or_zeros(const at::Tensor& tensor) {
  if (is_index(tensor)) {
    if (const BufferPtr buffer = known_buffer(tensor)) {
      return known_elements(buffer, tensor).clone();
    }
  }
  return cpu_like(tensor);
}

} // namespace

void note_origin(Buffer& buffer) {
  if (may_be_index(buffer.shape().scalar_type()) && buffer.nbytes() != 0) {
    buffer.SetInfo(std::make_shared<FromCpu>());
  }
}

bool takes_places(const std::string& name) {
  return place_rules().count(name) != 0;
}

void check_known_places(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!all_may_hold(place_rules().at(op.functional.operator_name().name), arguments)) {
    auto stack = stand_ins(arguments, known_or_zeros, c10::kCPU);
    op.handle.callBoxed(stack);
  }
}

} // namespace ftm
