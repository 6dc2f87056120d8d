#include "run/reference_random.h"

#include "random/cpu_stream.h"
#include "random/philox.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ftm {
namespace {

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
  // In (0, 1), symmetric: midpoints of intervals.
  float open24(uint64_t index) const { return (static_cast<float>(word(index) >> 9) + 0.5F) * 0x1p-23F; }
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

// Element i of the result is element(i), computed in f64, stored in the dtype.
template <typename Element>
at::Tensor generated(const at::Tensor& like, Element element) {
  auto wide = at::empty(like.sizes(), at::kDouble);
  auto* data = wide.mutable_data_ptr<double>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    data[i] = element(i);
  }
  return wide.to(like.scalar_type());
}

at::Tensor uniform(const at::Tensor& self, double from, double to, const Draw& draw) {
  if (self.scalar_type() == at::kDouble) {
    return generated(self, [&](int64_t i) { return from + draw.uniform53(i) * (to - from); });
  }
  const auto low = static_cast<float>(from);
  const auto range = static_cast<float>(to - from);
  return generated(self, [&](int64_t i) { return low + draw.uniform24(i) * range; });
}

// The same for the dtype that the compiler computes in: element(i, Real()).
template <typename Element>
at::Tensor generated_in(const at::Tensor& like, bool in_double, Element element) {
  return generated(like, [&](int64_t i) -> double {
    return in_double ? element(i, double()) : static_cast<double>(element(i, float()));
  });
}

template <typename Real>
Real standard_normal(const Draw& draw, int64_t i) {
  const Real u1 = draw.open<Real>(2 * i);
  const Real u2 = draw.open<Real>(2 * i + 1);
  return std::sqrt(Real(-2) * std::log(u1)) * std::cos(static_cast<Real>(2 * M_PI) * u2);
}

at::Tensor normal(const at::Tensor& self, double mean, double deviation, const Draw& draw, bool exponentials) {
  return generated_in(self, self.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    const Real z = static_cast<Real>(mean) + static_cast<Real>(deviation) * standard_normal<Real>(draw, i);
    return exponentials ? std::exp(z) : z;
  });
}

// A parameter of a distribution: a tensor or a number.
double parameter(const c10::IValue& value, const at::Tensor& dense, int64_t i) {
  return value.isTensor() ? dense.const_data_ptr<double>()[i] : value.toDouble();
}

at::Tensor normal_of(const c10::IValue& mean, const c10::IValue& deviation, const Draw& draw) {
  at::Tensor like = mean.isTensor() ? mean.toTensor() : deviation.toTensor();
  if (mean.isTensor() && deviation.isTensor()) {
    like = like.expand(at::infer_size(like.sizes(), deviation.toTensor().sizes()));
  }
  const auto dense = [&](const c10::IValue& value) {
    return value.isTensor() ? value.toTensor().to(at::kDouble).expand_as(like).contiguous() : at::Tensor();
  };
  const auto means = dense(mean);
  const auto deviations = dense(deviation);
  TORCH_CHECK(
      !deviations.defined() || deviations.ge(0).all().item<bool>(), "normal expects all elements of std >= 0.0");
  return generated_in(like, like.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    return static_cast<Real>(parameter(mean, means, i)) +
           static_cast<Real>(parameter(deviation, deviations, i)) * standard_normal<Real>(draw, i);
  });
}

at::Tensor cauchy(const at::Tensor& self, double median, double sigma, const Draw& draw) {
  return generated_in(self, self.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    const Real centred = draw.open<Real>(i) - Real(0.5);
    const Real angle = (Real(0.5) - std::abs(centred)) * static_cast<Real>(M_PI);
    const Real tangent = std::copysign(std::cos(angle) / std::sin(angle), centred);
    return tangent * static_cast<Real>(sigma) + static_cast<Real>(median);
  });
}

at::Tensor geometric(const at::Tensor& self, double p, const Draw& draw) {
  const bool in_double = !self.is_floating_point() || self.scalar_type() == at::kDouble;
  return generated_in(self, in_double, [&](int64_t i, auto real) {
    using Real = decltype(real);
    return std::ceil(std::log(draw.open<Real>(i)) / std::log1p(-static_cast<Real>(p)));
  });
}

at::Tensor bernoulli(const at::Tensor& self, double p, const Draw& draw) {
  return generated(self, [&](int64_t i) { return static_cast<double>(draw.uniform24(i)) < p ? 1.0 : 0.0; });
}

at::Tensor bernoulli_of(const at::Tensor& probabilities, const Draw& draw) {
  const auto dense = probabilities.to(at::kDouble).contiguous();
  const auto* p = dense.const_data_ptr<double>();
  return generated(probabilities, [&](int64_t i) {
    const double p_in = p[i];
    TORCH_CHECK(p_in >= 0 && p_in <= 1); // in eager's words
    return static_cast<double>(draw.uniform24(i)) < p_in ? 1.0 : 0.0;
  });
}

at::Tensor exponential(const at::Tensor& self, double lambda, const Draw& draw) {
  if (self.scalar_type() == at::kDouble) {
    return generated(self, [&](int64_t i) { return -std::log1p(-draw.uniform53(i)) / lambda; });
  }
  return generated(self, [&](int64_t i) { return -std::log1p(-draw.uniform24(i)) / static_cast<float>(lambda); });
}

at::Tensor integers(const at::Tensor& self, int64_t from, uint64_t range, const Draw& draw) {
  auto wide = at::empty(self.sizes(), at::kLong);
  auto* data = wide.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const uint64_t bits = draw.word(2 * i) | static_cast<uint64_t>(draw.word(2 * i + 1)) << 32;
    data[i] = from + static_cast<int64_t>(range == 0 ? bits : bits % range);
  }
  return wide.to(self.scalar_type());
}

// (input scaled where kept, mask of what is kept)
torch::jit::Stack dropout(const at::Tensor& input, double p, bool train, const Draw& draw) {
  if (!train) {
    return {input, at::ones_like(input, input.options().dtype(at::kBool))};
  }
  const double keep = 1.0 - p;
  auto mask = at::empty(input.sizes(), at::kBool);
  auto* kept = mask.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < mask.numel(); ++i) {
    kept[i] = static_cast<double>(draw.uniform24(i)) < keep;
  }
  const double scale = keep == 0 ? 0.0 : 1.0 / keep;
  return {input.mul(mask).mul_(scale), mask};
}

// Places of the keys in stable order.
template <typename Key>
at::Tensor sorted_places(const std::vector<Key>& keys) {
  auto places = at::arange(static_cast<int64_t>(keys.size()), at::kLong);
  auto* data = places.mutable_data_ptr<int64_t>();
  std::stable_sort(data, data + keys.size(), [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  return places;
}

at::Tensor permutation(int64_t n, const Draw& draw) {
  constexpr int64_t kFew = 1 << 12; // up to which keys have 32 bits
  std::vector<int64_t> keys(n);
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = n <= kFew ? static_cast<int32_t>(draw.word(i))
                        : static_cast<int64_t>(draw.word(2 * i) | static_cast<uint64_t>(draw.word(2 * i + 1)) << 32);
  }
  return sorted_places(keys);
}

// A row of samples; `first` is the number of the row's first draw.
at::Tensor choice(const at::Tensor& weights, int64_t count, bool replacement, int64_t first, const Draw& draw) {
  const int64_t n = weights.numel();
  const auto wide = weights.to(at::kDouble).contiguous();
  const auto* w = wide.const_data_ptr<double>();
  if (!replacement) {
    std::vector<float> race(n);
    for (int64_t i = 0; i < n; ++i) {
      const double noise = std::log(-std::log(draw.open24(first + i)));
      race[i] = -static_cast<float>(
          weights.scalar_type() == at::kDouble ? std::log(w[i]) - noise
                                               : std::log(static_cast<float>(w[i])) - static_cast<float>(noise));
    }
    return sorted_places(race).narrow(0, 0, count);
  }
  const auto sums = wide.cumsum(0);
  const auto* s = sums.const_data_ptr<double>();
  auto places = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const double reached = draw.uniform53(first + i) * s[n - 1];
    places.mutable_data_ptr<int64_t>()[i] = std::upper_bound(s, s + n, reached) - s;
  }
  return places;
}

at::Tensor multinomial(const at::Tensor& self, int64_t count, bool replacement, const Draw& draw) {
  const bool valid = at::logical_and(self.ge(0), self.lt(INFINITY)).all().item<bool>();
  TORCH_CHECK(valid, "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(self.gt(0).any(-1).all().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
  const auto rows = self.reshape({-1, self.size(-1)});
  auto result = at::empty({rows.size(0), count}, at::kLong);
  const int64_t draws = replacement ? count : rows.size(1); // of a row
  for (int64_t i = 0; i < rows.size(0); ++i) {
    result.select(0, i).copy_(choice(rows.select(0, i), count, replacement, i * draws, draw));
  }
  return self.dim() == 1 ? result.squeeze(0) : result;
}

// random_() without bounds: all that the dtype can count exactly.
uint64_t default_range(at::ScalarType dtype) {
  return (uint64_t{1} << dtype_facts(dtype).digits) + (at::isFloatingType(dtype) ? 1 : 0);
}

} // namespace

void run_random_reference(const Form& form, torch::jit::Stack& stack, uint64_t seed, uint64_t offset) {
  const Draw draw{{seed, offset}};
  const auto& name = form.name;
  const auto self = stack[0].isTensor() ? stack[0].toTensor() : at::Tensor();
  const auto result_dtype = form.results[0].type.dtype;
  if (name == "aten::native_dropout") {
    stack = dropout(self, stack[1].toDouble(), stack[2].isNone() || stack[2].toBool(), draw);
    return;
  }
  at::Tensor result;
  if (name == "aten::uniform") {
    result = uniform(self, stack[1].toDouble(), stack[2].toDouble(), draw);
  } else if (name == "aten::normal_functional") {
    result = normal(self, stack[1].toDouble(), stack[2].toDouble(), draw, /*exponentials=*/false);
  } else if (name == "aten::log_normal") {
    result = normal(self, stack[1].toDouble(), stack[2].toDouble(), draw, /*exponentials=*/true);
  } else if (name.rfind("aten::normal.", 0) == 0) {
    result = normal_of(stack[0], stack[1], draw);
  } else if (name == "aten::multinomial") {
    result = multinomial(self, stack[1].toInt(), stack[2].toBool(), draw);
  } else if (name == "aten::randperm" || name == "aten::randperm.generator") {
    result = permutation(stack[0].toInt(), draw).to(result_dtype);
  } else if (name == "aten::cauchy") {
    result = cauchy(self, stack[1].toDouble(), stack[2].toDouble(), draw);
  } else if (name == "aten::geometric") {
    result = geometric(self, stack[1].toDouble(), draw);
  } else if (name == "aten::bernoulli.p") {
    result = bernoulli(self, stack[1].toDouble(), draw);
  } else if (name == "aten::bernoulli") {
    result = bernoulli_of(self, draw);
  } else if (name == "aten::bernoulli.Tensor") {
    result = bernoulli_of(stack[1].toTensor().expand_as(self), draw).to(self.scalar_type());
  } else if (name == "aten::exponential") {
    result = exponential(self, stack[1].toDouble(), draw);
  } else if (name == "aten::random") {
    result = integers(self, 0, default_range(self.scalar_type()), draw);
  } else if (name == "aten::random.to") {
    result = integers(self, 0, static_cast<uint64_t>(stack[1].toInt()), draw);
  } else if (name == "aten::random.from") {
    const int64_t from = stack[1].toInt();
    const uint64_t range = stack[2].isNone() ? default_range(self.scalar_type()) - static_cast<uint64_t>(from)
                                             : static_cast<uint64_t>(stack[2].toInt()) - static_cast<uint64_t>(from);
    result = integers(self, from, range, draw);
  }
  if (result.defined()) {
    stack.assign({result});
    return;
  }
  // The long tail: reproducible from seed and offset, with the CPU's own streams.
  const CpuStream stream(form.handle(), stack, draw);
  form.handle().callBoxed(stack);
}

} // namespace ftm
