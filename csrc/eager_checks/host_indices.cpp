#include "eager_checks/host_indices.h"

#include "shape_inference/meta_calls.h"
#include "tensor/tensor_access.h"

#include <algorithm>

namespace ftm {
namespace {

bool may_be_index(at::ScalarType dtype) {
  return dtype == at::kLong || dtype == at::kInt;
}

bool is_index(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone() && tensor.numel() != 0 &&
         may_be_index(tensor.scalar_type());
}

// The dtype of a tensor may differ from that of its buffer, whose range is then meaningless.
bool has_index_range(const Buffer& buffer, const at::Tensor& index) {
  return buffer.shape().scalar_type() == index.scalar_type();
}

// Returns the tensor's buffer if its elements came from the CPU, or null.
BufferPtr host_buffer(const at::Tensor& tensor) {
  const RecorderLock lock(recorder_mutex());
  const Region region = region_of(*tensor.unsafeGetTensorImpl());
  const Value& value = region.variable.value();
  if (!region.is_whole || !value.node || !trace_node(value).is_data) {
    return nullptr;
  }
  const auto& buffer = static_cast<const DataNode&>(trace_node(value)).buffer();
  return buffer->is_from_cpu() ? buffer : nullptr;
}

at::Tensor view_on_cpu(const BufferPtr& buffer, const at::Tensor& tensor) {
  return Buffer::as_cpu(
      buffer, tensor.scalar_type(), tensor.sizes(), tensor.strides(),
      region_of(*tensor.unsafeGetTensorImpl()).offset);
}

struct Bounds {
  int64_t low, high; // low <= index < high
  std::optional<int64_t> ignored; // a value that is no index

  bool contain(int64_t element) const {
    return (element >= low && element < high) || element == ignored;
  }
};

template <typename T>
bool all_in_bounds(const at::Tensor& elements, const Bounds& bounds) {
  const T* first = elements.const_data_ptr<T>();
  return std::all_of(
      first, first + elements.numel(), [&](T element) { return bounds.contain(element); });
}

// Returns false if an index is out of bounds for certain.
bool may_be_in_bounds(const at::Tensor& index, const Bounds& bounds) {
  if (!is_index(index)) {
    return true;
  }
  const BufferPtr buffer = host_buffer(index);
  if (!buffer) {
    return true;
  }
  if (has_index_range(*buffer, index)) {
    const auto range = buffer->index_range(); // of the whole buffer, if the index is a view
    if (range.low >= bounds.low && range.high < bounds.high) {
      return true;
    }
  }
  const at::Tensor elements = view_on_cpu(buffer, index).contiguous();
  return index.scalar_type() == at::kLong ? all_in_bounds<int64_t>(elements, bounds)
                                          : all_in_bounds<int32_t>(elements, bounds);
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

bool all_may_be_in_bounds(const IndexRule& rule, c10::ArrayRef<c10::IValue> arguments) {
  const auto bounds = [&](int64_t extent) -> Bounds {
    return {rule.wraps ? -extent : 0, extent, std::nullopt};
  };
  if (rule.extent != IndexRule::Extent::each) {
    Bounds index_bounds = bounds(extent_of(rule, arguments));
    if (rule.extent == IndexRule::Extent::classes) {
      index_bounds.ignored = arguments[4].toInt(); // ignore_index
    }
    return may_be_in_bounds(arguments[rule.index].toTensor(), index_bounds);
  }
  const auto& source = arguments[0].toTensor();
  const auto indices = arguments[rule.index].toOptionalTensorVector();
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor>& index = indices[i];
    if (index && !may_be_in_bounds(*index, bounds(source.size(static_cast<int64_t>(i))))) {
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
  const BufferPtr buffer = host_buffer(tensor);
  return buffer ? view_on_cpu(buffer, tensor) : at::Tensor();
}

at::Tensor elements_or_zeros(const at::Tensor& tensor) {
  const at::Tensor elements = elements_from_cpu(tensor);
  return elements.defined() ? elements.clone() : cpu_like(tensor);
}

void check_host_indices(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!all_may_be_in_bounds(*op.index_rule, arguments)) {
    auto stack = with_tensors_replaced(arguments, elements_or_zeros, c10::kCPU);
    op.handle.callBoxed(stack);
  }
}

} // namespace ftm
