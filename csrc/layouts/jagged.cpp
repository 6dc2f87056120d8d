// Nested tensors of jagged layout are rows [total, ...] and offsets [batch + 1], both on the
// device. Conversion from and to padded tensors.
#include "support/counters.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace ftm {
namespace {

using at::Tensor;

const Tensor& single_offsets(at::TensorList offsets) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      offsets.size() == 1, "device ftm has nested tensors with one jagged dimension");
  return offsets[0];
}

// [batch, length]: row number of each position of a padded tensor. Past the end of a sequence, it
// is a row of the next one.
Tensor row_numbers(const Tensor& offsets, int64_t length) {
  return offsets.slice(0, 0, -1).unsqueeze(1) + at::arange(length, offsets.options());
}

Tensor with_trailing_dims(const Tensor& mask, int64_t rank) {
  at::DimVector shape(mask.sizes());
  shape.resize(rank, 1);
  return mask.view(shape);
}

Tensor to_padded_dense(
    const Tensor& values, at::TensorList offsets_list, c10::SymIntArrayRef max_lengths,
    double padding_value) {
  const Tensor& offsets = single_offsets(offsets_list);
  const int64_t length = max_lengths.at(0).expect_int(), total = values.size(0);
  at::DimVector shape{offsets.size(0) - 1, length};
  shape.append(values.sizes().begin() + 1, values.sizes().end());
  if (total == 0) {
    return at::full(shape, padding_value, values.options());
  }
  const auto rows = row_numbers(offsets, length);
  const auto is_inside = rows.lt(offsets.slice(0, 1).unsqueeze(1));
  const auto gathered = values.index_select(0, rows.clamp_max(total - 1).flatten()).view(shape);
  return gathered.masked_fill(
      with_trailing_dims(is_inside.logical_not(), gathered.dim()), padding_value);
}

// Rows past the dense tensor's length become zeros.
Tensor to_jagged(
    const Tensor& dense, at::TensorList offsets_list, std::optional<c10::SymInt> total_length) {
  const Tensor& offsets = single_offsets(offsets_list);
  const int64_t batch = dense.size(0), length = dense.size(1);
  if (!total_length) {
    counter("sync::aten::_padded_dense_to_jagged_forward").fetch_add(1, std::memory_order_relaxed);
  }
  const int64_t total = total_length ? total_length->expect_int()
                                     : offsets.select(0, batch).to(at::kLong).item<int64_t>();
  if (total == 0 || length == 0) {
    at::DimVector shape{total};
    shape.append(dense.sizes().begin() + 2, dense.sizes().end());
    return at::zeros(shape, dense.options());
  }
  const auto rows = at::arange(total, offsets.options());
  const auto sequence =
      at::searchsorted(offsets.slice(0, 1), rows, /*out_int32=*/false, /*right=*/true);
  const auto position = rows - offsets.index_select(0, sequence);
  const auto gathered =
      dense.flatten(0, 1).index_select(0, sequence * length + position.clamp_max(length - 1));
  return gathered.masked_fill(with_trailing_dims(position.ge(length), gathered.dim()), 0);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_jagged_to_padded_dense_forward", TORCH_FN(to_padded_dense));
  library.impl("_padded_dense_to_jagged_forward", TORCH_FN(to_jagged));
}

} // namespace ftm
