// Ops whose result sizes depend on the device's values. One number is read, which launches what is
// pending unless the CPU can evaluate the number; the rest is recorded.
#include "eager_checks/host_indices.h"
#include "execute/integers_on_cpu.h"
#include "support/counters.h"

#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/unique_dim_consecutive.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace ftm {
namespace {

using at::Tensor;

// Reads an integer from a tensor. An evaluation on the CPU is counted as `places_on_cpu`, a read
// from the device as `sync::<name>`.
int64_t read_size(const Tensor& number, const std::string& name) {
  if (number.is_cpu()) {
    return number.item<int64_t>();
  }
  const Tensor size = integers_on_cpu(number);
  counter(size.defined() ? "places_on_cpu" : "sync::" + name)
      .fetch_add(1, std::memory_order_relaxed);
  return (size.defined() ? size : number).item<int64_t>();
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, c10::SymInt minlength) {
  const int64_t minimum = minlength.expect_int();
  TORCH_CHECK(minimum >= 0, "minlength should be >= 0");
  const bool weighted = weights && weights->defined();
  const auto dtype = !weighted                              ? at::kLong
                     : weights->scalar_type() == at::kFloat ? at::kFloat
                                                            : at::kDouble;
  const auto options = self.options().dtype(dtype);
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({minimum}, options.dtype(at::kLong));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isIntegralType(self.scalar_type(), /*includeBool=*/false),
      "\"bincount_cpu\" not implemented for '", self.scalar_type(), "'");
  const Tensor host = elements_from_cpu(self);
  const Tensor& values = host.defined() ? host : self;
  TORCH_CHECK(
      self.dim() == 1 && read_size(values.min(), "aten::bincount") >= 0,
      "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(
      !weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
      "weights should be 1-d and have the same length as input");
  const int64_t size = std::max(read_size(values.max(), "aten::bincount") + 1, minimum);
  const auto increments = weighted ? weights->to(dtype) : at::ones_like(self, options);
  return at::zeros({size}, options).index_add(0, self.to(at::kLong), increments);
}

struct Groups {
  Tensor first; // index of each group's first element
  Tensor group; // group number of each element
  Tensor counts; // number of elements of each group
};

// Groups runs of equal rows. `is_new` is, for each row but the first, whether it differs from the
// previous one.
Groups find_groups(const Tensor& is_new, int64_t rows, const std::string& name) {
  const auto group = at::cat({at::zeros({1}, is_new.options().dtype(at::kLong)), is_new.cumsum(0)});
  const int64_t count = read_size(group.select(0, rows - 1), name) + 1;
  const auto first = at::searchsorted(group, at::arange(count, group.options()));
  const auto end = at::full({1}, rows, group.options());
  return {first, group, at::cat({first, end}).diff()};
}

using Unique = std::tuple<Tensor, Tensor, Tensor>;

Unique unique_of_flat(
    const Tensor& flat, const Tensor& order, at::IntArrayRef shape, const std::string& name) {
  const int64_t length = flat.numel();
  const auto groups = find_groups(flat.slice(0, 1).ne(flat.slice(0, 0, length - 1)), length, name);
  const auto inverse =
      order.defined() ? at::empty_like(groups.group).scatter(0, order, groups.group) : groups.group;
  return {flat.index_select(0, groups.first), inverse.view(shape), groups.counts};
}

// Makes results empty that were not requested, as on the CPU.
Unique select_results(Unique results, const Tensor& self, bool inverse, bool counts) {
  const auto empty = at::empty({0}, self.options().dtype(at::kLong));
  return {
      std::get<0>(results), inverse ? std::get<1>(results) : empty,
      counts ? std::get<2>(results) : empty};
}

Unique unique_of_empty(const Tensor& self) {
  const auto indices = self.options().dtype(at::kLong);
  return {
      at::empty({0}, self.options()), at::empty(self.sizes(), indices), at::empty({0}, indices)};
}

Unique unique2(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  if (self.numel() == 0) {
    return select_results(unique_of_empty(self), self, return_inverse, return_counts);
  }
  const auto [sorted, order] = self.flatten().sort();
  return select_results(
      unique_of_flat(sorted, order, self.sizes(), "aten::_unique2"), self, return_inverse,
      return_counts);
}

std::tuple<Tensor, Tensor> unique(const Tensor& self, bool sorted, bool return_inverse) {
  const auto [values, inverse, counts] = at::_unique2(self, sorted, return_inverse);
  return {values, inverse};
}

Unique unique_consecutive(
    const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (dim && self.dim() != 1) {
    return at::unique_dim_consecutive(self, *dim, return_inverse, return_counts);
  }
  if (self.numel() == 0) {
    return select_results(unique_of_empty(self), self, return_inverse, return_counts);
  }
  const Tensor unsorted;
  return select_results(
      unique_of_flat(self.flatten(), unsorted, self.sizes(), "aten::unique_consecutive"), self,
      return_inverse, return_counts);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("bincount", TORCH_FN(bincount));
  library.impl("_unique", TORCH_FN(unique));
  library.impl("_unique2", TORCH_FN(unique2));
  library.impl("unique_consecutive", TORCH_FN(unique_consecutive));
}

} // namespace ftm
