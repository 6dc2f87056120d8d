#include "graph/view_spec.h"

#include <algorithm>

namespace ftm {
namespace {

CallSpecPtr make_spec(CallSpec::Kind kind, const char* name, int32_t operands, ValueType result) {
  auto spec = c10::make_intrusive<CallSpec>();
  spec->kind = kind;
  spec->name = name;
  for (int32_t i = 0; i < operands; ++i) {
    spec->slots.push_back({OperandSlot::Kind::value, i, -1});
  }
  ResultType type;
  type.type = std::move(result);
  spec->results.push_back(std::move(type));
  return spec;
}

} // namespace

bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= sizes[i];
  }
  return true;
}

CallSpecPtr view_spec(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  auto spec = make_spec(CallSpec::Kind::view, "ftm.view", 1, {base.dtype, c10::DimVector(sizes)});
  spec->sizes = sizes;
  spec->strides = strides;
  spec->offset = offset;
  spec->finish();
  return spec;
}

CallSpecPtr update_spec(
    const ValueType& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  auto spec = make_spec(CallSpec::Kind::update, "ftm.update", 2, base);
  spec->sizes = sizes;
  spec->strides = strides;
  spec->offset = offset;
  spec->finish();
  return spec;
}

CallSpecPtr bitcast_spec(const ValueType& base, at::ScalarType dtype) {
  const int64_t bytes = base.numel() * static_cast<int64_t>(c10::elementSize(base.dtype));
  auto spec = make_spec(
      CallSpec::Kind::bitcast, "ftm.bitcast", 1,
      {dtype, {bytes / static_cast<int64_t>(c10::elementSize(dtype))}});
  spec->finish();
  return spec;
}

CallSpecPtr memory_order_spec(const ValueType& base, c10::IntArrayRef strides) {
  // Dimensions in order of decreasing stride are the order in memory. Dimensions of size 1 do not
  // matter; the stable sort keeps them in index order.
  const auto rank = static_cast<int64_t>(base.sizes.size());
  c10::DimVector order(rank);
  for (int64_t i = 0; i < rank; ++i) {
    order[i] = i;
  }
  std::stable_sort(
      order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
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
  auto spec = view_spec(base, sizes, view_strides, 0);
  spec->layout_sizes = base.sizes;
  spec->layout_strides = strides;
  return spec;
}

} // namespace ftm
