// Draws from distributions, with the same results as the compiler's lowering: element i of a result
// is a function of (seed, offset, i). Runs on the CPU, on any thread.
#pragma once

#include "random/philox.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace ftm {

// The random words of one call.
struct Draw : RandomDraw {
  uint32_t word(uint64_t index) const { return philox_word(index, seed, offset); }
  // Uniform in [0, 1), with 24 bits.
  float uniform24(uint64_t index) const { return static_cast<float>(word(index) >> 8) * 0x1p-24F; }
  // Uniform in [0, 1), with 53 bits.
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
  // Uniform in (0, 1), symmetric: midpoints of equal intervals.
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

// Each returns a tensor like `self`, whose elements are not read.
at::Tensor uniform(const at::Tensor& self, double from, double to, const Draw& draw);
at::Tensor log_normal(const at::Tensor& self, double mean, double deviation, const Draw& draw);
at::Tensor cauchy(const at::Tensor& self, double median, double sigma, const Draw& draw);
at::Tensor geometric(const at::Tensor& self, double p, const Draw& draw);
at::Tensor exponential(const at::Tensor& self, double lambda, const Draw& draw);
at::Tensor bernoulli(const at::Tensor& self, double p, const Draw& draw);
// Integers of [from, from + range); a range of 0 means all 64-bit integers.
at::Tensor integers(const at::Tensor& self, int64_t from, uint64_t range, const Draw& draw);
// `mean` and `deviation` are tensors or numbers. Throws for a negative deviation.
at::Tensor normal(
    const at::Tensor& like, const c10::IValue& mean, const c10::IValue& deviation,
    const Draw& draw);
// 1 where a draw is below the probability. Throws eager's error for a probability outside [0, 1].
at::Tensor bernoulli_of(const at::Tensor& probabilities, const Draw& draw);
// Returns (input, scaled where it is kept; mask of kept elements).
torch::jit::Stack dropout(const at::Tensor& input, double p, bool train, const Draw& draw);
// Returns a permutation of 0 .. n - 1 as int64.
at::Tensor permutation(int64_t n, const Draw& draw);
// Returns `count` indices for each row of weights, as int64. Throws eager's errors for invalid
// weights.
at::Tensor multinomial(const at::Tensor& self, int64_t count, bool replacement, const Draw& draw);

} // namespace ftm
