#include "ops/beyond_schema.h"

#include "ops/recording_table.h"

#include <c10/util/Exception.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace ftm {
namespace {

IndexRule::Extent extent_named(const std::string& word) {
  using Extent = IndexRule::Extent;
  static const std::unordered_map<std::string, Extent> extents = {
      {"first", Extent::first},
      {"dim", Extent::dim},
      {"classes", Extent::classes},
      {"all", Extent::all},
      {"each", Extent::each}};
  const auto found = extents.find(word);
  TORCH_CHECK_VALUE(found != extents.end(), "unknown extent of indices: '", word, "'");
  return found->second;
}

} // namespace

bool shapes_program(const std::string& op, const std::string& argument) {
  return recorded_facts(op).constants.count(argument) != 0;
}

bool is_runtime_float(const std::string& op, const std::string& argument) {
  return (op == "aten::native_dropout" && argument == "p") ||
         (op == "aten::native_dropout_backward" && argument == "scale");
}

bool takes_cpu_indices(const std::string& op) {
  return recorded_facts(op).cpu_indices;
}

bool forbids_overlap(const std::string& op) {
  return recorded_facts(op).reads_apart;
}

bool has_permissive_meta(const std::string& op) {
  return recorded_facts(op).permissive_meta;
}

bool refuses_values(const std::string& op) {
  return recorded_facts(op).refuses_values;
}

bool may_fail(const std::string& op) {
  return recorded_facts(op).may_fail;
}

const IndexRule* find_index_rule(const std::string& op) {
  const RecordedFacts& facts = recorded_facts(op);
  if (facts.extent.empty()) {
    return nullptr;
  }
  // One for all ops that have it; ops point to it, so it lives for ever.
  static std::mutex mutex;
  static auto* rules = new std::map<std::tuple<std::string, size_t, bool>, std::unique_ptr<IndexRule>>;
  const std::lock_guard<std::mutex> guard(mutex);
  auto& rule = (*rules)[{facts.extent, facts.index, facts.wraps}];
  if (!rule) {
    rule = std::make_unique<IndexRule>(IndexRule{extent_named(facts.extent), facts.index, facts.wraps});
  }
  return rule.get();
}

} // namespace ftm
