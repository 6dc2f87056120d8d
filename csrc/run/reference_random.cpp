#include "run/reference_random.h"

#include "ops/recording_table.h"
#include "random/cpu_stream.h"
#include "random/philox.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
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

at::Tensor log_normal(const at::Tensor& self, double mean, double deviation, const Draw& draw) {
  return generated_in(self, self.scalar_type() == at::kDouble, [&](int64_t i, auto real) {
    using Real = decltype(real);
    return std::exp(static_cast<Real>(mean) + static_cast<Real>(deviation) * standard_normal<Real>(draw, i));
  });
}

// A parameter of a distribution: a tensor or a number.
double parameter(const c10::IValue& value, const at::Tensor& dense, int64_t i) {
  return value.isTensor() ? dense.const_data_ptr<double>()[i] : value.toDouble();
}

at::Tensor normal(const at::Tensor& like, const c10::IValue& mean, const c10::IValue& deviation, const Draw& draw) {
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

// A call, its arguments by name.
struct Drawn {
  const Form& form;
  const torch::jit::Stack& arguments;

  bool has(const std::string& name) const { return place(name).has_value(); }
  const c10::IValue& at(const std::string& name) const {
    const auto found = place(name);
    TORCH_CHECK(found, form.name, " has no argument ", name, ", which its distribution takes");
    return arguments[*found];
  }
  double number(const std::string& name) const { return at(name).toDouble(); }
  // What is filled, or what the draws depend on: the first argument.
  const at::Tensor& self() const { return arguments[0].toTensor(); }

 private:
  std::optional<int> place(const std::string& name) const { return form.handle().schema().argumentIndexWithName(name); }
};

at::Tensor draw_normal(const Drawn& call, const Draw& draw) {
  const auto& mean = call.at("mean");
  const auto& deviation = call.at("std");
  if (call.has("self")) {
    return normal(call.self(), mean, deviation, draw);
  }
  at::Tensor like = mean.isTensor() ? mean.toTensor() : deviation.toTensor();
  if (mean.isTensor() && deviation.isTensor()) {
    like = like.expand(at::infer_size(like.sizes(), deviation.toTensor().sizes()));
  }
  return normal(like, mean, deviation, draw);
}

at::Tensor draw_bernoulli(const Drawn& call, const Draw& draw) {
  const auto& self = call.self();
  if (!call.has("p")) {
    return bernoulli_of(self, draw);
  }
  const auto& p = call.at("p");
  return p.isTensor() ? bernoulli_of(p.toTensor().expand_as(self), draw).to(self.scalar_type())
                      : bernoulli(self, p.toDouble(), draw);
}

at::Tensor draw_integers(const Drawn& call, const Draw& draw) {
  const auto& self = call.self();
  const int64_t from = call.has("from") ? call.at("from").toInt() : 0;
  const uint64_t to = call.has("to") && !call.at("to").isNone() ? static_cast<uint64_t>(call.at("to").toInt())
                                                                : default_range(self.scalar_type());
  return integers(self, from, to - static_cast<uint64_t>(from), draw);
}

using Distribution = torch::jit::Stack (*)(const Drawn&, const Draw&);

// The distributions that a record may name (recording.py).
const std::unordered_map<std::string, Distribution>& distributions() {
  using Results = torch::jit::Stack;
  using C = Drawn;
  using D = Draw;
  static const std::unordered_map<std::string, Distribution> all = {
      {"uniform",
       [](const C& c, const D& d) -> Results { return {uniform(c.self(), c.number("from"), c.number("to"), d)}; }},
      {"normal", [](const C& c, const D& d) -> Results { return {draw_normal(c, d)}; }},
      {"log_normal",
       [](const C& c, const D& d) -> Results { return {log_normal(c.self(), c.number("mean"), c.number("std"), d)}; }},
      {"cauchy",
       [](const C& c, const D& d) -> Results { return {cauchy(c.self(), c.number("median"), c.number("sigma"), d)}; }},
      {"geometric", [](const C& c, const D& d) -> Results { return {geometric(c.self(), c.number("p"), d)}; }},
      {"exponential", [](const C& c, const D& d) -> Results { return {exponential(c.self(), c.number("lambd"), d)}; }},
      {"bernoulli", [](const C& c, const D& d) -> Results { return {draw_bernoulli(c, d)}; }},
      {"integers", [](const C& c, const D& d) -> Results { return {draw_integers(c, d)}; }},
      {"permutation",
       [](const C& c, const D& d) -> Results {
         return {permutation(c.at("n").toInt(), d).to(c.form.results[0].type.dtype)};
       }},
      {"choice",
       [](const C& c, const D& d) -> Results {
         return {multinomial(c.self(), c.at("num_samples").toInt(), c.at("replacement").toBool(), d)};
       }},
      {"dropout", [](const C& c, const D& d) -> Results {
         return dropout(c.self(), c.number("p"), c.at("train").isNone() || c.at("train").toBool(), d);
       }}};
  return all;
}

} // namespace

void run_random_reference(const Form& form, torch::jit::Stack& stack, uint64_t seed, uint64_t offset) {
  const Draw draw{{seed, offset}};
  const auto found = distributions().find(recorded_facts(form.handle().operator_name().name).draws);
  if (found != distributions().end()) {
    stack = found->second({form, stack}, draw);
    return;
  }
  // The long tail: reproducible from seed and offset, with the CPU's own streams.
  const CpuStream stream(form.handle(), stack, draw);
  form.handle().callBoxed(stack);
}

} // namespace ftm
