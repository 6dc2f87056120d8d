// Packs sequences with indices that are data. ATen's implementation has an operation for each
// length that occurs.
#include "nn/packed_sequence.h"

#include <ATen/ops/_pack_padded_sequence_native.h>
#include <ATen/ops/_pad_packed_sequence_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>

namespace ftm {

using at::Tensor;

Packing::Packing(const Tensor& batch_sizes) : steps(batch_sizes.size(0)), batch(0), total(0) {
  const auto sizes = batch_sizes.contiguous();
  const auto* counts = sizes.const_data_ptr<int64_t>();
  batch = counts[0];
  TORCH_CHECK(batch > 0, "batch_sizes of a packed sequence must be positive");
  lengths_.assign(batch, 0);
  for (int64_t t = 0; t < steps; ++t) {
    TORCH_CHECK(
        counts[t] > 0 && counts[t] <= (t ? counts[t - 1] : batch),
        "batch_sizes of a packed sequence must be positive and not grow");
    offsets_.push_back(total);
    total += counts[t];
    std::for_each(
        lengths_.begin(), lengths_.begin() + counts[t], [](int64_t& length) { ++length; });
  }
}

Tensor Packing::rows(bool backwards, c10::Device device, int64_t padded_steps) const {
  std::vector<int64_t> numbers(padded_steps * batch, total);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < lengths_[b]; ++t) {
      numbers[t * batch + b] = row(backwards, t, b);
    }
  }
  return at::tensor(numbers).to(device);
}

Tensor Packing::padded_rows(bool backwards, c10::Device device) const {
  std::vector<int64_t> numbers(total);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < lengths_[b]; ++t) {
      numbers[row(backwards, t, b)] = t * batch + b;
    }
  }
  return at::tensor(numbers).to(device);
}

Tensor Packing::last_rows(c10::Device device) const {
  std::vector<int64_t> numbers;
  numbers.reserve(batch);
  for (int64_t b = 0; b < batch; ++b) {
    numbers.push_back((lengths_[b] - 1) * batch + b);
  }
  return at::tensor(numbers).to(device);
}

namespace {

// Returns the padded tensor as rows: those of the first step, one per sequence, then of the second.
Tensor flatten_steps(const Tensor& padded, bool batch_first) {
  return (batch_first ? padded.transpose(0, 1) : padded).flatten(0, 1);
}

// Returns the number of sequences that have each step; nullopt if the lengths are invalid, for
// which ATen raises the error.
std::optional<Tensor> batch_sizes_of(const Tensor& input, const Tensor& lengths, bool batch_first) {
  if (input.dim() < 2 || input.numel() == 0 || lengths.dim() != 1 ||
      lengths.device().type() != at::kCPU || lengths.scalar_type() != at::kLong ||
      lengths.numel() == 0 || lengths.size(0) != input.size(batch_first ? 0 : 1)) {
    return std::nullopt;
  }
  const auto contiguous = lengths.contiguous();
  const auto* length = contiguous.const_data_ptr<int64_t>();
  const int64_t count = contiguous.numel();
  if (length[count - 1] < 1 || length[0] > input.size(batch_first ? 1 : 0) ||
      !std::is_sorted(length, length + count, std::greater<>())) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  sizes.reserve(length[0]);
  for (int64_t t = 0; t < length[0]; ++t) {
    sizes.push_back(std::count_if(length, length + count, [t](int64_t n) { return n > t; }));
  }
  return at::tensor(sizes);
}

std::tuple<Tensor, Tensor> pack(const Tensor& input, const Tensor& lengths, bool batch_first) {
  const auto sizes = batch_sizes_of(input, lengths, batch_first);
  if (!sizes) {
    return at::native::_pack_padded_sequence(input, lengths, batch_first);
  }
  const auto rows = Packing(*sizes).padded_rows(false, input.device());
  return {flatten_steps(input, batch_first).index_select(0, rows), *sizes};
}

// Returns the padded tensor of `steps` steps with the rows of `data`, and the row `padding`
// elsewhere.
Tensor unpack(
    const Tensor& data, const Packing& packing, int64_t steps, const Tensor& padding,
    bool batch_first) {
  const auto flat =
      at::cat({data, padding}).index_select(0, packing.rows(false, data.device(), steps));
  const auto padded = flat.unflatten(0, {steps, packing.batch});
  return batch_first ? padded.transpose(0, 1) : padded;
}

Tensor row_of(const Tensor& data, const at::Scalar& value) {
  auto sizes = data.sizes().vec();
  sizes[0] = 1;
  return at::full(sizes, value, data.options());
}

Tensor pack_backward(
    const Tensor& grad, c10::SymIntArrayRef input_size, const Tensor& batch_sizes,
    bool batch_first) {
  const int64_t steps = input_size[batch_first ? 1 : 0].expect_int();
  return unpack(grad, Packing(batch_sizes), steps, row_of(grad, 0), batch_first);
}

std::tuple<Tensor, Tensor> pad(
    const Tensor& data, const Tensor& batch_sizes, bool batch_first, const at::Scalar& value,
    int64_t total_length) {
  const bool is_valid = batch_sizes.device().type() == at::kCPU &&
                        batch_sizes.scalar_type() == at::kLong && batch_sizes.dim() == 1 &&
                        batch_sizes.numel() > 0 && data.dim() > 0;
  if (!is_valid || (total_length > 0 && total_length < batch_sizes.size(0))) {
    return at::native::_pad_packed_sequence(data, batch_sizes, batch_first, value, total_length);
  }
  const Packing packing(batch_sizes);
  TORCH_CHECK(
      packing.total == data.size(0), "a packed sequence has ", data.size(0),
      " rows, but its batch_sizes have ", packing.total);
  const int64_t steps = total_length > 0 ? total_length : packing.steps;
  return {
      unpack(data, packing, steps, row_of(data, value), batch_first),
      at::tensor(packing.lengths())};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_pack_padded_sequence", TORCH_FN(pack));
  library.impl("_pack_padded_sequence_backward", TORCH_FN(pack_backward));
  library.impl("_pad_packed_sequence", TORCH_FN(pad));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  // Composed of differentiable ops, as ATen's.
  library.impl("_pack_padded_sequence_backward", TORCH_FN(pack_backward));
  library.impl("_pad_packed_sequence", TORCH_FN(pad));
}

} // namespace ftm
