#include "eager_checks/host_indices.h"

#include "shape_inference/meta_calls.h"
#include "tensor/tensor_access.h"

#include <algorithm>
#include <mutex>

namespace ftm {
namespace {

bool may_be_index(at::ScalarType dtype) {
  return dtype == at::kLong || dtype == at::kInt;
}

bool is_index(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone() && tensor.numel() != 0 &&
         may_be_index(tensor.scalar_type());
}

// On buffers whose elements came from the CPU: their least and their greatest, found once.
struct IndexRange final : torch::lazy::BackendData::Info {
  std::once_flag found;
  int64_t low = 0, high = 0;
};

template <typename T>
void find_range(IndexRange& info, const Buffer& buffer) {
  const auto* first = static_cast<const T*>(buffer.data());
  const size_t count = buffer.nbytes() / sizeof(T);
  const auto [low, high] = std::minmax_element(first, first + count);
  info.low = *low;
  info.high = *high;
}

const IndexRange& range_of(const Buffer& buffer) {
  auto& info = static_cast<IndexRange&>(*buffer.info()); // known_buffer has put it there
  std::call_once(info.found, [&] {
    buffer.shape().scalar_type() == at::kLong ? find_range<int64_t>(info, buffer)
                                              : find_range<int32_t>(info, buffer);
  });
  return info;
}

// The tensor's buffer if its elements came from the CPU.
BufferPtr known_buffer(const at::Tensor& tensor) {
  const RecorderLock lock(recorder_mutex());
  const Region region = region_of(*tensor.unsafeGetTensorImpl());
  const Value& value = region.variable.value();
  if (!region.is_whole || !value.node || !trace_node(value).is_data) {
    return nullptr;
  }
  const auto& buffer = static_cast<const DataNode&>(trace_node(value)).buffer();
  if (!buffer->is_from_cpu()) {
    return nullptr;
  }
  if (may_be_index(buffer->shape().scalar_type()) && buffer->info() == nullptr) {
    buffer->SetInfo(std::make_shared<IndexRange>());
  }
  return buffer;
}

at::Tensor known_elements(const BufferPtr& buffer, const at::Tensor& tensor) {
  return Buffer::as_cpu(
      buffer, tensor.scalar_type(), tensor.sizes(), tensor.strides(),
      region_of(*tensor.unsafeGetTensorImpl()).offset);
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
  return std::all_of(
      first, first + elements.numel(), [&](T element) { return bounds.hold(element); });
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
  return index.scalar_type() == at::kLong ? all_hold<int64_t>(elements, bounds)
                                          : all_hold<int32_t>(elements, bounds);
}

int64_t extent_of(const IndexRule& rule, c10::ArrayRef<c10::IValue> arguments) {
  const auto& source = arguments[0].toTensor();
  switch (rule.extent) {
    case IndexRule::Extent::first: return source.size(0);
    case IndexRule::Extent::classes: return source.size(source.dim() == 1 ? 0 : 1);
    case IndexRule::Extent::all: return source.numel();
    default: return source.dim() == 0 ? 1 : source.size(arguments[1].toInt());
  }
}

bool all_may_hold(const IndexRule& rule, c10::ArrayRef<c10::IValue> arguments) {
  const auto bounds = [&](int64_t extent) -> Bounds {
    return {rule.wraps ? -extent : 0, extent, std::nullopt};
  };
  if (rule.extent != IndexRule::Extent::each) {
    Bounds wanted = bounds(extent_of(rule, arguments));
    if (rule.extent == IndexRule::Extent::classes) {
      wanted.ignored = arguments[4].toInt(); // ignore_index
    }
    return may_hold(arguments[rule.index].toTensor(), wanted);
  }
  const auto& source = arguments[0].toTensor();
  const auto indices = arguments[rule.index].toOptionalTensorVector();
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor>& index = indices[i];
    if (index && !may_hold(*index, bounds(source.size(static_cast<int64_t>(i))))) {
      return false;
    }
  }
  return true;
}

} // namespace

at::Tensor elements_from_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone() || tensor.numel() == 0) {
    return {};
  }
  const BufferPtr buffer = known_buffer(tensor);
  return buffer ? known_elements(buffer, tensor) : at::Tensor();
}

at::Tensor known_or_zeros(const at::Tensor& tensor) {
  const at::Tensor known = elements_from_cpu(tensor);
  return known.defined() ? known.clone() : cpu_like(tensor);
}

void check_known_indices(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!all_may_hold(*op.index_rule, arguments)) {
    auto stack = with_tensors_replaced(arguments, known_or_zeros, c10::kCPU);
    op.handle.callBoxed(stack);
  }
}

} // namespace ftm
