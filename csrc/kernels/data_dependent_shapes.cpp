// Ops whose results are as large as the device's values say: one number is read, which runs what is
// pending, and the rest is recorded.
#include "eager_checks/host_indices.h"
#include "support/counters.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace ftm {
namespace {

using at::Tensor;

// The integer that `number` has. A tensor from the CPU is known there; else `name` is counted as
// having waited.
int64_t read_size(const Tensor& number, const std::string& name) {
  if (!number.is_cpu()) {
    counter("sync::" + name).fetch_add(1, std::memory_order_relaxed);
  }
  return number.item<int64_t>();
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, c10::SymInt minlength) {
  const int64_t least = minlength.expect_int();
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  const bool weighted = weights && weights->defined();
  const auto dtype = !weighted                              ? at::kLong
                     : weights->scalar_type() == at::kFloat ? at::kFloat
                                                            : at::kDouble;
  const auto options = self.options().dtype(dtype);
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({least}, options.dtype(at::kLong));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isIntegralType(self.scalar_type(), /*includeBool=*/false),
      "\"bincount_cpu\" not implemented for '", self.scalar_type(), "'");
  const Tensor known = elements_from_cpu(self);
  const Tensor& seen = known.defined() ? known : self;
  TORCH_CHECK(
      self.dim() == 1 && read_size(seen.min(), "aten::bincount") >= 0,
      "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(
      !weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
      "weights should be 1-d and have the same length as input");
  const int64_t size = std::max(read_size(seen.max(), "aten::bincount") + 1, least);
  const auto added = weighted ? weights->to(dtype) : at::ones_like(self, options);
  return at::zeros({size}, options).index_add(0, self.to(at::kLong), added);
}

struct Groups {
  Tensor first; // place of each group's first element
  Tensor group; // of each element
  Tensor counts; // elements of each group
};

// Runs of rows: `is_new` says of each row but the first whether it differs from the one before.
Groups groups_of(const Tensor& is_new, int64_t rows, const std::string& name) {
  const auto group = at::cat({at::zeros({1}, is_new.options().dtype(at::kLong)), is_new.cumsum(0)});
  const int64_t count = read_size(group.select(0, rows - 1), name) + 1;
  const auto first = at::searchsorted(group, at::arange(count, group.options()));
  const auto end = at::full({1}, rows, group.options());
  return {first, group, at::cat({first, end}).diff()};
}

using Unique = std::tuple<Tensor, Tensor, Tensor>;

Unique of_flat(
    const Tensor& flat, const Tensor& order, at::IntArrayRef shape, const std::string& name) {
  const int64_t length = flat.numel();
  const auto groups = groups_of(flat.slice(0, 1).ne(flat.slice(0, 0, length - 1)), length, name);
  const auto inverse =
      order.defined() ? at::empty_like(groups.group).scatter(0, order, groups.group) : groups.group;
  return {flat.index_select(0, groups.first), inverse.view(shape), groups.counts};
}

// As on the CPU: what is not asked for is empty.
Unique asked_for(Unique made, const Tensor& self, bool inverse, bool counts) {
  const auto nothing = at::empty({0}, self.options().dtype(at::kLong));
  return {
      std::get<0>(made), inverse ? std::get<1>(made) : nothing,
      counts ? std::get<2>(made) : nothing};
}

Unique of_nothing(const Tensor& self) {
  const auto places = self.options().dtype(at::kLong);
  return {at::empty({0}, self.options()), at::empty(self.sizes(), places), at::empty({0}, places)};
}

Unique unique2(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  if (self.numel() == 0) {
    return asked_for(of_nothing(self), self, return_inverse, return_counts);
  }
  const auto [sorted, order] = self.flatten().sort();
  return asked_for(
      of_flat(sorted, order, self.sizes(), "aten::_unique2"), self, return_inverse, return_counts);
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
    return asked_for(of_nothing(self), self, return_inverse, return_counts);
  }
  const Tensor unsorted;
  return asked_for(
      of_flat(self.flatten(), unsorted, self.sizes(), "aten::unique_consecutive"), self,
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
