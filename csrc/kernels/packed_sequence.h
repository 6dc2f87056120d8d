// Where the steps of a packed batch lie: sequences of lengths that do not grow, one step of all
// that have it after the other.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace ftm {

struct Packing {
  int64_t steps; // T
  int64_t batch; // B
  int64_t total; // rows of the packed data

  // batch_sizes: how many sequences have each step, on the CPU.
  explicit Packing(const at::Tensor& batch_sizes);

  // [T * B]: the row of the data for each place of a rectangle of steps, or `total` behind the end
  // of a sequence; backwards: each sequence from its last step on. `steps_shown` is at least T.
  at::Tensor rows(bool backwards, c10::Device device, int64_t steps_shown) const;
  at::Tensor rows(bool backwards, c10::Device device) const {
    return rows(backwards, device, steps);
  }
  // [total]: the reverse, the place in the rectangle for each row of the data.
  at::Tensor places(bool backwards, c10::Device device) const;
  // [B]: the place of each sequence's last step.
  at::Tensor last(c10::Device device) const;

  // Of each sequence.
  const std::vector<int64_t>& lengths() const { return lengths_; }

 private:
  std::vector<int64_t> lengths_;
  std::vector<int64_t> offsets_; // first row of each step

  int64_t row(bool backwards, int64_t t, int64_t b) const {
    return offsets_[backwards ? lengths_[b] - 1 - t : t] + b;
  }
};

} // namespace ftm
