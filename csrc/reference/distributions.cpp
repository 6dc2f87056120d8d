#include "reference/distributions.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones_like.h>

#include <c10/util/BFloat16-math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace ftm {

namespace {

// Returns a tensor whose element i is element(i), computed in f64 and stored in the dtype of
// `like`.
template <typename Element>
at::Tensor generate(const at::Tensor& like, Element element) {
  auto wide = at::empty(like.sizes(), at::kDouble);
  auto* data = wide.mutable_data_ptr<double>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    data[i] = element(i);
  }
  return wide.to(like.scalar_type());
}

// The same with element(i, Real()), where Real is the dtype in which the compiler computes.
template <typename Element>
at::Tensor generate_in(const at::Tensor& like, bool in_double, Element element) {
  return generate(like, [&](int64_t i) -> double {
    return in_double ? element(i, double()) : static_cast<double>(element(i, float()));
  });
}

template <typename Real>
Real standard_normal(const Draw& draw, int64_t i) {
  const Real u1 = draw.open<Real>(2 * i);
  const Real u2 = draw.open<Real>(2 * i + 1);
  return std::sqrt(Real(-2) * std::log(u1)) * std::cos(static_cast<Real>(2 * M_PI) * u2);
}

// Returns the largest number of the stored type that is at most x.
template <typename Stored, typename Real>
Stored rounded_down(Real x) {
  const auto nearest = static_cast<Stored>(x);
  return static_cast<Real>(nearest) > x
             ? std::nextafter(nearest, -std::numeric_limits<Stored>::infinity())
             : nearest;
}

// Returns the smallest number of the stored type that is at least x.
template <typename Stored, typename Real>
Stored rounded_up(Real x) {
  const auto nearest = static_cast<Stored>(x);
  return static_cast<Real>(nearest) < x
             ? std::nextafter(nearest, std::numeric_limits<Stored>::infinity())
             : nearest;
}

// Returns a distribution's parameter for element i; it is a number, or a tensor with the values
// `dense`.
double parameter(const c10::IValue& value, const at::Tensor& dense, int64_t i) {
  return value.isTensor() ? dense.const_data_ptr<double>()[i] : value.toDouble();
}

// Returns the permutation that sorts the keys stably (argsort).
template <typename Key>
at::Tensor argsort(const std::vector<Key>& keys) {
  auto indices = at::arange(static_cast<int64_t>(keys.size()), at::kLong);
  auto* data = indices.mutable_data_ptr<int64_t>();
  std::stable_sort(
      data, data + keys.size(), [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  return indices;
}

// Draws `count` indices from one row of weights. `first` is the number of the row's first draw.
at::Tensor draw_row(
    const at::Tensor& weights, int64_t count, bool replacement, int64_t first, const Draw& draw) {
  const int64_t n = weights.numel();
  const auto wide = weights.to(at::kDouble).contiguous();
  const auto* w = wide.const_data_ptr<double>();
  if (!replacement) {
    std::vector<float> race(n);
    for (int64_t i = 0; i < n; ++i) {
      const double noise = std::log(-std::log(draw.open24(first + i)));
      race[i] = -static_cast<float>(
          weights.scalar_type() == at::kDouble
              ? std::log(w[i]) - noise
              : std::log(static_cast<float>(w[i])) - static_cast<float>(noise));
    }
    return argsort(race).narrow(0, 0, count);
  }
  const auto sums = wide.cumsum(0);
  const auto* s = sums.const_data_ptr<double>();
  auto indices = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const double reached = draw.uniform53(first + i) * s[n - 1];
    indices.mutable_data_ptr<int64_t>()[i] = std::upper_bound(s, s + n, reached) - s;
  }
  return indices;
}

} // namespace

at::Tensor uniform(const at::Tensor& self, double from, double to, const Draw& draw) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "uniform", [&] {
        using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
        const auto low = static_cast<scalar_t>(from);
        const auto high = static_cast<scalar_t>(to);
        const auto first = static_cast<Real>(low);
        const auto range = static_cast<Real>(high) - first;
        const auto last = std::max(
            static_cast<Real>(std::nextafter(high, -std::numeric_limits<scalar_t>::infinity())),
            first);
        return generate(self, [&](int64_t i) {
          const Real drawn = first + draw.unit<Real>(i) * range;
          return static_cast<double>(rounded_down<scalar_t>(std::min(drawn, last)));
        });
      });
}

at::Tensor log_normal(const at::Tensor& self, double mean, double deviation, const Draw& draw) {
  return generate_in(self, self.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    return std::exp(
        static_cast<Real>(mean) + static_cast<Real>(deviation) * standard_normal<Real>(draw, i));
  });
}

at::Tensor normal(
    const at::Tensor& like, const c10::IValue& mean, const c10::IValue& deviation,
    const Draw& draw) {
  const auto dense = [&](const c10::IValue& value) {
    return value.isTensor() ? value.toTensor().to(at::kDouble).expand_as(like).contiguous()
                            : at::Tensor();
  };
  const auto means = dense(mean);
  const auto deviations = dense(deviation);
  TORCH_CHECK(
      !deviations.defined() || deviations.ge(0).all().item<bool>(),
      "normal expects all elements of std >= 0.0");
  return generate_in(like, like.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    return static_cast<Real>(parameter(mean, means, i)) +
           static_cast<Real>(parameter(deviation, deviations, i)) * standard_normal<Real>(draw, i);
  });
}

at::Tensor cauchy(const at::Tensor& self, double median, double sigma, const Draw& draw) {
  return generate_in(self, self.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    const Real centred = draw.open<Real>(i) - Real(0.5);
    const Real angle = (Real(0.5) - std::abs(centred)) * static_cast<Real>(M_PI);
    const Real tangent = std::copysign(std::cos(angle) / std::sin(angle), centred);
    return tangent * static_cast<Real>(sigma) + static_cast<Real>(median);
  });
}

at::Tensor geometric(const at::Tensor& self, double p, const Draw& draw) {
  const bool in_double = !self.is_floating_point() || self.scalar_type() == at::kDouble;
  return generate_in(self, in_double, [&](int64_t i, auto real) {
    using Real = decltype(real);
    return std::max(
        std::ceil(std::log(draw.open<Real>(i)) / std::log1p(-static_cast<Real>(p))), Real(1));
  });
}

at::Tensor bernoulli(const at::Tensor& self, double p, const Draw& draw) {
  return generate(
      self, [&](int64_t i) { return static_cast<double>(draw.uniform24(i)) < p ? 1.0 : 0.0; });
}

at::Tensor bernoulli_of(const at::Tensor& probabilities, const Draw& draw) {
  const auto dense = probabilities.to(at::kDouble).contiguous();
  const auto* p = dense.const_data_ptr<double>();
  return generate(probabilities, [&](int64_t i) {
    const double p_in = p[i]; // eager's name: its error message contains the condition's text
    TORCH_CHECK(p_in >= 0 && p_in <= 1);
    return static_cast<double>(draw.uniform24(i)) < p_in ? 1.0 : 0.0;
  });
}

at::Tensor exponential(const at::Tensor& self, double lambda, const Draw& draw) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "exponential", [&] {
        using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
        const auto rate = static_cast<Real>(lambda);
        const auto smallest = static_cast<Real>(std::numeric_limits<scalar_t>::denorm_min());
        return generate(self, [&](int64_t i) {
          const Real drawn = -std::log1p(-draw.open<Real>(i)) / rate;
          return static_cast<double>(std::isinf(rate) ? Real(0) : std::max(drawn, smallest));
        });
      });
}

at::Tensor integers(const at::Tensor& self, int64_t from, uint64_t range, const Draw& draw) {
  auto wide = at::empty(self.sizes(), at::kLong);
  auto* data = wide.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const uint64_t bits = draw.word(2 * i) | static_cast<uint64_t>(draw.word(2 * i + 1)) << 32;
    data[i] = from + static_cast<int64_t>(range == 0 ? bits : bits % range);
  }
  if (!self.is_floating_point()) {
    return wide.to(self.scalar_type());
  }
  return AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "integers", [&] {
        const auto smallest = static_cast<double>(rounded_up<scalar_t>(from));
        return generate(self, [&](int64_t i) {
          return std::max(static_cast<double>(rounded_down<scalar_t>(data[i])), smallest);
        });
      });
}

torch::jit::Stack dropout(const at::Tensor& input, double p, bool train, const Draw& draw) {
  if (!train) {
    return {input, at::ones_like(input, input.options().dtype(at::kBool))};
  }
  const double keep_probability = 1.0 - p;
  auto mask = at::empty(input.sizes(), at::kBool);
  auto* kept = mask.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < mask.numel(); ++i) {
    kept[i] = static_cast<double>(draw.uniform24(i)) < keep_probability;
  }
  const double scale = keep_probability == 0 ? 0.0 : 1.0 / keep_probability;
  return {input.mul(mask).mul_(scale), mask};
}

at::Tensor permutation(int64_t n, const Draw& draw) {
  constexpr int64_t kMaxSmall = 1 << 12; // largest n for which keys have 32 bits
  std::vector<int64_t> keys(n);
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = n <= kMaxSmall
                  ? static_cast<int32_t>(draw.word(i))
                  : static_cast<int64_t>(
                        draw.word(2 * i) | static_cast<uint64_t>(draw.word(2 * i + 1)) << 32);
  }
  return argsort(keys);
}

at::Tensor multinomial(const at::Tensor& self, int64_t count, bool replacement, const Draw& draw) {
  const bool valid = at::logical_and(self.ge(0), self.lt(INFINITY)).all().item<bool>();
  TORCH_CHECK(valid, "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(
      self.gt(0).any(-1).all().item<bool>(),
      "invalid multinomial distribution (sum of probabilities <= 0)");
  const auto rows = self.reshape({-1, self.size(-1)});
  auto result = at::empty({rows.size(0), count}, at::kLong);
  const int64_t draws = replacement ? count : rows.size(1); // per row
  for (int64_t i = 0; i < rows.size(0); ++i) {
    result.select(0, i).copy_(draw_row(rows.select(0, i), count, replacement, i * draws, draw));
  }
  return self.dim() == 1 ? result.squeeze(0) : result;
}

} // namespace ftm
