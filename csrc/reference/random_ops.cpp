#include "reference/random_ops.h"

#include "ops/op_traits.h"
#include "random/cpu_generator.h"
#include "reference/distributions.h"

#include <ATen/ExpandUtils.h>

#include <limits>
#include <string>
#include <unordered_map>

namespace ftm {
namespace {

// Number of values of random_() without bounds: all integers that the dtype represents exactly.
uint64_t default_range(at::ScalarType dtype) {
  return (uint64_t{1} << dtype_info(dtype).integer_bits) + (at::isFloatingType(dtype) ? 1 : 0);
}

// A call that draws, with access to its arguments by name.
struct RandomCall {
  const CallSpec& spec;
  const torch::jit::Stack& arguments;

  bool has(const std::string& name) const { return index_of(name).has_value(); }
  const c10::IValue& at(const std::string& name) const {
    const auto found = index_of(name);
    TORCH_CHECK(found, spec.name, " has no argument ", name, ", which its distribution needs");
    return arguments[*found];
  }
  double number(const std::string& name) const { return at(name).toDouble(); }
  // The first argument: the tensor that is filled, or on which the draws depend.
  const at::Tensor& self() const { return arguments[0].toTensor(); }

 private:
  std::optional<int> index_of(const std::string& name) const {
    return spec.handle().schema().argumentIndexWithName(name);
  }
};

at::Tensor draw_normal(const RandomCall& call, const Draw& draw) {
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

at::Tensor draw_bernoulli(const RandomCall& call, const Draw& draw) {
  const auto& self = call.self();
  if (!call.has("p")) {
    return bernoulli_of(self, draw);
  }
  const auto& p = call.at("p");
  return p.isTensor() ? bernoulli_of(p.toTensor().expand_as(self), draw).to(self.scalar_type())
                      : bernoulli(self, p.toDouble(), draw);
}

at::Tensor draw_integers(const RandomCall& call, const Draw& draw) {
  const auto& self = call.self();
  const int64_t from = call.has("from") ? call.at("from").toInt() : 0;
  if (call.has("to") && !call.at("to").isNone()) {
    return integers(
        self, from, static_cast<uint64_t>(call.at("to").toInt()) - static_cast<uint64_t>(from),
        draw);
  }
  const bool is_full_range = from == std::numeric_limits<int64_t>::lowest();
  return integers(
      self, from,
      is_full_range ? 0 : default_range(self.scalar_type()) - static_cast<uint64_t>(from), draw);
}

using Distribution = torch::jit::Stack (*)(const RandomCall&, const Draw&);

// The distributions that an op's trait `draws` may name (ops/op_traits.h).
const std::unordered_map<std::string, Distribution>& distributions() {
  using Results = torch::jit::Stack;
  using C = RandomCall;
  using D = Draw;
  static const std::unordered_map<std::string, Distribution> all = {
      {"uniform",
       [](const C& c, const D& d) -> Results {
         return {uniform(c.self(), c.number("from"), c.number("to"), d)};
       }},
      {"normal", [](const C& c, const D& d) -> Results { return {draw_normal(c, d)}; }},
      {"log_normal",
       [](const C& c, const D& d) -> Results {
         return {log_normal(c.self(), c.number("mean"), c.number("std"), d)};
       }},
      {"cauchy",
       [](const C& c, const D& d) -> Results {
         return {cauchy(c.self(), c.number("median"), c.number("sigma"), d)};
       }},
      {"geometric",
       [](const C& c, const D& d) -> Results { return {geometric(c.self(), c.number("p"), d)}; }},
      {"exponential",
       [](const C& c, const D& d) -> Results {
         return {exponential(c.self(), c.number("lambd"), d)};
       }},
      {"bernoulli", [](const C& c, const D& d) -> Results { return {draw_bernoulli(c, d)}; }},
      {"integers", [](const C& c, const D& d) -> Results { return {draw_integers(c, d)}; }},
      {"permutation",
       [](const C& c, const D& d) -> Results {
         return {permutation(c.at("n").toInt(), d).to(c.spec.results[0].type.dtype)};
       }},
      {"choice",
       [](const C& c, const D& d) -> Results {
         return {
             multinomial(c.self(), c.at("num_samples").toInt(), c.at("replacement").toBool(), d)};
       }},
      {"dropout", [](const C& c, const D& d) -> Results {
         return dropout(
             c.self(), c.number("p"), c.at("train").isNone() || c.at("train").toBool(), d);
       }}};
  return all;
}

} // namespace

void run_random_reference(
    const CallSpec& spec, torch::jit::Stack& stack, uint64_t seed, uint64_t offset) {
  const Draw draw{{seed, offset}};
  const auto found = distributions().find(op_traits(spec.handle().operator_name().name).draws);
  if (found != distributions().end()) {
    stack = found->second({spec, stack}, draw);
    return;
  }
  // The remaining ops draw from the CPU's generator, seeded from seed and offset, so they are
  // reproducible.
  const CpuStream stream(spec.handle(), stack, draw);
  spec.handle().callBoxed(stack);
}

} // namespace ftm
