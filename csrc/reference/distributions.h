// Draws from distributions, as the compiler's lowering does them: element i of a result is a
// function of (seed, offset, i).
#pragma once

#include "random/philox.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace ftm {

// The numbers of one call.
struct Draw : RandomDraw {
  uint32_t word(uint64_t index) const { return philox_word(index, seed, offset); }
  // In [0, 1), 24 bits.
  float uniform24(uint64_t index) const { return static_cast<float>(word(index) >> 8) * 0x1p-24F; }
  // In [0, 1), 53 bits.
  double uniform53(uint64_t index) const {
    const uint64_t high = word(2 * index) >> 5;
    const uint64_t low = word(2 * index + 1) >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }
  template <typename Real>
  Real unit(uint64_t index) const {
    return sizeof(Real) == 4 ? static_cast<Real>(uniform24(index))
                             : static_cast<Real>(uniform53(index));
  }
  // In (0, 1), symmetric: midpoints of intervals.
  float open24(uint64_t index) const {
    return (static_cast<float>(word(index) >> 9) + 0.5F) * 0x1p-23F;
  }
  double open53(uint64_t index) const {
    const uint64_t high = word(2 * index) >> 5;
    const uint64_t low = word(2 * index + 1) >> 7;
    return (static_cast<double>(high << 25 | low) + 0.5) * 0x1p-52;
  }
  template <typename Real>
  Real open(uint64_t index) const {
    return sizeof(Real) == 4 ? static_cast<Real>(open24(index)) : static_cast<Real>(open53(index));
  }
};

// Filled like `self`, whose elements are not read.
at::Tensor uniform(const at::Tensor& self, double from, double to, const Draw& draw);
at::Tensor log_normal(const at::Tensor& self, double mean, double deviation, const Draw& draw);
at::Tensor cauchy(const at::Tensor& self, double median, double sigma, const Draw& draw);
at::Tensor geometric(const at::Tensor& self, double p, const Draw& draw);
at::Tensor exponential(const at::Tensor& self, double lambda, const Draw& draw);
at::Tensor bernoulli(const at::Tensor& self, double p, const Draw& draw);
// `from` and up; `range`: how many numbers; 0: all of 64 bits.
at::Tensor integers(const at::Tensor& self, int64_t from, uint64_t range, const Draw& draw);
// The mean and the deviation: tensors or numbers. Throws for a negative deviation.
at::Tensor normal(
    const at::Tensor& like, const c10::IValue& mean, const c10::IValue& deviation,
    const Draw& draw);
// 1 where a draw is below the probability. Throws what eager throws for one outside of [0, 1].
at::Tensor bernoulli_of(const at::Tensor& probabilities, const Draw& draw);
// (input scaled where kept, mask of what is kept)
torch::jit::Stack dropout(const at::Tensor& input, double p, bool train, const Draw& draw);
// Of 0 to n - 1, as int64.
at::Tensor permutation(int64_t n, const Draw& draw);
// Of each row of weights `count` places, as int64. Throws for weights that can't be drawn by.
at::Tensor multinomial(const at::Tensor& self, int64_t count, bool replacement, const Draw& draw);

} // namespace ftm
