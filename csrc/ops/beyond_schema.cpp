#include "ops/beyond_schema.h"

#include <unordered_map>
#include <unordered_set>

namespace ftm {

using Names = std::unordered_set<std::string>;

bool shapes_program(const std::string& op, const std::string& argument) {
  static const Names ops = {
      "aten::arange", "aten::range", "aten::linspace", "aten::logspace", "aten::linalg_vector_norm",
      "aten::norm", "aten::histc", "aten::pow", "aten::pow_", "aten::renorm", "aten::dist", "aten::_cdist_forward"};
  static const Names arguments = {
      "start", "end", "step", "ord", "p", "exponent", "min", "max"};
  return ops.count(op) != 0 && arguments.count(argument) != 0;
}

bool is_runtime_float(const std::string& op, const std::string& argument) {
  return (op == "aten::native_dropout" && argument == "p") ||
      (op == "aten::native_dropout_backward" && argument == "scale");
}

bool takes_cpu_indices(const std::string& op) {
  return op == "aten::index" || op == "aten::index_put";
}

bool forbids_overlap(const std::string& op) {
  static const Names names = {
      "aten::cat",       "aten::gather",       "aten::index",        "aten::index_add", "aten::index_copy",
      "aten::index_fill", "aten::index_put",   "aten::index_reduce", "aten::index_select", "aten::kthvalue",
      "aten::masked_select", "aten::put",      "aten::scatter",      "aten::scatter_add", "aten::scatter_reduce",
      "aten::take"};
  return names.count(op) != 0;
}

bool has_permissive_meta(const std::string& op) {
  static const Names names = {
      "aten::bucketize",    "aten::fractional_max_pool3d", "aten::index_add",      "aten::index_copy", "aten::index_fill",
      "aten::index_reduce", "aten::index_select",          "aten::isin",           "aten::masked_scatter", "aten::put",
      "aten::searchsorted", "aten::select_scatter",        "aten::slice_scatter",  "aten::take"};
  return names.count(op) != 0;
}

bool refuses_values(const std::string& op) {
  static const Names names = {
      "aten::div", "aten::floor_divide", "aten::fmod", "aten::multinomial", "aten::remainder"};
  return names.count(op) != 0;
}

const IndexRule* find_index_rule(const std::string& name) {
  using Extent = IndexRule::Extent;
  static const std::unordered_map<std::string, IndexRule> rules = {
      {"aten::embedding", {Extent::first, 1, false}},
      {"aten::gather", {Extent::dim, 2, false}},
      {"aten::index", {Extent::each, 1, true}},
      {"aten::index_add", {Extent::dim, 2, false}},
      {"aten::index_copy", {Extent::dim, 2, false}},
      {"aten::index_fill", {Extent::dim, 2, true}},
      {"aten::index_put", {Extent::each, 1, true}},
      {"aten::index_reduce", {Extent::dim, 2, false}},
      {"aten::index_select", {Extent::dim, 2, false}},
      {"aten::nll_loss2d_forward", {Extent::classes, 1, false}},
      {"aten::nll_loss_forward", {Extent::classes, 1, false}},
      {"aten::put", {Extent::all, 1, true}},
      {"aten::scatter", {Extent::dim, 2, false}},
      {"aten::scatter_add", {Extent::dim, 2, false}},
      {"aten::scatter_reduce", {Extent::dim, 2, false}},
      {"aten::take", {Extent::all, 1, true}},
  };
  const auto found = rules.find(name);
  return found == rules.end() ? nullptr : &found->second;
}

} // namespace ftm
