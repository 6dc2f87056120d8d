// The layout of a packed batch: sequences in order of decreasing length, stored step by step.
#pragma once

#include <vector>
#include <ATen/core/Tensor.h>

namespace ftm {

// Maps between the rows of the packed data and those of a padded tensor [T, B]. Its tensors are
// indices, int64.
struct Packing {
  int64_t steps; // T
  int64_t batch; // B
  int64_t total; // rows of the packed data

  // `batch_sizes`: the number of sequences that have each step, [T], on the CPU. Throws if it is
  // not positive and decreasing.
  explicit Packing(const at::Tensor& batch_sizes);

  // [padded_steps * B]: the row of the packed data for each row of the padded tensor, or `total`
  // past the end of a sequence. `backwards`: each sequence is reversed. `padded_steps` is at least
  // T.
  at::Tensor rows(bool backwards, c10::Device device, int64_t steps_shown) const;
  at::Tensor rows(bool backwards, c10::Device device) const {
    return rows(backwards, device, steps);
  }
  // [total]: the inverse, the row of the padded tensor for each row of the packed data.
  at::Tensor padded_rows(bool backwards, c10::Device device) const;
  // [B]: the row of the padded tensor for each sequence's last step.
  at::Tensor last_rows(c10::Device device) const;

  // Returns the length of each sequence.
  const std::vector<int64_t>& lengths() const { return lengths_; }

 private:
  std::vector<int64_t> lengths_;
  std::vector<int64_t> offsets_; // first row of each step

  int64_t row(bool backwards, int64_t t, int64_t b) const {
    return offsets_[backwards ? lengths_[b] - 1 - t : t] + b;
  }
};

} // namespace ftm
