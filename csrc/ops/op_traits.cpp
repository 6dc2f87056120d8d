#include "ops/op_traits.h"

#include "support/runtime.h"

#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace ftm {
namespace {

using TraitsByName = std::unordered_map<std::string, OpTraits>;
using Words = std::vector<std::string>;

struct AnnotationTables {
  std::shared_mutex mutex;
  // The last table is in use. The others stay alive, since references to their entries exist.
  std::vector<std::unique_ptr<const TraitsByName>> all;
};

template <typename Value>
Value named(const std::unordered_map<std::string, Value>& values, const std::string& word) {
  const auto found = values.find(word);
  TORCH_CHECK_VALUE(found != values.end(), "unknown word in the traits of an op: '", word, "'");
  return found->second;
}

std::vector<CallKind> call_kinds(const Words& words) {
  static const std::unordered_map<std::string, CallKind> kinds = {
      {"always", CallKind::always},
      {"out", CallKind::out},
      {"mixed", CallKind::mixed},
      {"mixed_reals", CallKind::mixed_reals},
      {"integers", CallKind::integers},
      {"bools", CallKind::bools},
      {"no_dims", CallKind::no_dims},
      {"negatives", CallKind::negatives},
      {"negative_exponent", CallKind::negative_exponent},
      {"transposed_integers", CallKind::transposed_integers},
      {"halves", CallKind::halves},
      {"one_sample", CallKind::one_sample}};
  std::vector<CallKind> result;
  for (const auto& word : words) {
    result.push_back(named(kinds, word));
  }
  return result;
}

IndexRule index_rule(const Words& words) {
  using Extent = IndexRule::Extent;
  static const std::unordered_map<std::string, Extent> extents = {
      {"first", Extent::first},
      {"dim", Extent::dim},
      {"classes", Extent::classes},
      {"all", Extent::all},
      {"each", Extent::each}};
  return {named(extents, words.at(0)), std::stoul(words.at(1)), words.size() > 2};
}

CompositeUse composite_use(const Words& words) {
  static const std::unordered_map<std::string, CompositeUse> uses = {
      {"whole", CompositeUse::whole},
      {"unfit", CompositeUse::unfit},
      {"serves", CompositeUse::serves}};
  return named(uses, words.at(0));
}

Refusal refusal(const Words& words) {
  static const std::unordered_map<std::string, Refusal> refusals = {
      {"zero_divisors", Refusal::zero_divisors},
      {"zero_divisors_if_rounded", Refusal::zero_divisors_if_rounded},
      {"no_distribution", Refusal::no_distribution}};
  return named(refusals, words.at(0));
}

Concatenation concatenation(const Words& words) {
  static const std::unordered_map<std::string, Concatenation> ways = {
      {"dim", Concatenation::dim}, {"new_dim", Concatenation::new_dim}};
  return named(ways, words.at(0));
}

using Reader = std::function<void(OpTraits&, const Words&)>;

Reader flag(bool OpTraits::* member) {
  return [member](OpTraits& facts, const Words&) { facts.*member = true; };
}

const std::unordered_map<std::string, Reader>& readers() {
  using F = OpTraits;
  static const std::unordered_map<std::string, Reader> all = {
      {"constants",
       [](F& facts, const Words& words) { facts.constants.insert(words.begin(), words.end()); }},
      {"runtime",
       [](F& facts, const Words& words) { facts.runtime.insert(words.begin(), words.end()); }},
      {"indices", [](F& facts, const Words& words) { facts.indices = {index_rule(words)}; }},
      {"domain",
       [](F& facts, const Words& words) {
         facts.domain = {{words.at(0), {words.begin() + 1, words.end()}}};
       }},
      {"tried", [](F& facts, const Words& words) { facts.tried = call_kinds(words); }},
      {"ranks",
       [](F& facts, const Words& words) {
         for (const auto& word : words) {
           facts.ranks.push_back(std::stoll(word));
         }
       }},
      {"asks_cpu", [](F& facts, const Words& words) { facts.asks_cpu = call_kinds(words); }},
      {"refuses", [](F& facts, const Words& words) { facts.refuses = refusal(words); }},
      {"composite", [](F& facts, const Words& words) { facts.composite = composite_use(words); }},
      {"like", [](F& facts, const Words& words) { facts.like = std::stoll(words.at(0)); }},
      {"layout", [](F& facts, const Words& words) { facts.layout = words.at(0); }},
      {"draws", [](F& facts, const Words& words) { facts.draws = words.at(0); }},
      {"cpu_indices", flag(&F::cpu_indices)},
      {"forbids_overlap", flag(&F::forbids_overlap)},
      {"value_is_number", flag(&F::value_is_number)},
      {"checks_dim", flag(&F::checks_dim)},
      {"checks_alpha", flag(&F::checks_alpha)},
      {"may_fail", flag(&F::may_fail)},
      {"converts_to_out", flag(&F::converts_to_out)},
      {"takes_no_bools", flag(&F::takes_no_bools)},
      {"masks_results", flag(&F::masks_results)},
      {"counts_bags", flag(&F::counts_bags)},
      {"concatenates",
       [](F& facts, const Words& words) { facts.concatenates = concatenation(words); }}};
  return all;
}

} // namespace

const OpTraits& op_traits(const std::string& op) {
  static const OpTraits none;
  auto& tables = part<AnnotationTables>();
  std::shared_lock<std::shared_mutex> guard(tables.mutex);
  if (tables.all.empty()) {
    return none;
  }
  const auto found = tables.all.back()->find(op);
  return found == tables.all.back()->end() ? none : found->second;
}

void set_op_traits(const std::vector<TraitRow>& rows) {
  auto table = std::make_unique<TraitsByName>();
  for (const auto& [name, fields] : rows) {
    OpTraits& traits = (*table)[name];
    for (const auto& [field, words] : fields) {
      named(readers(), field)(traits, words);
    }
  }
  auto& tables = part<AnnotationTables>();
  std::unique_lock<std::shared_mutex> guard(tables.mutex);
  tables.all.push_back(std::move(table));
}

std::vector<std::string> names_with(CompositeUse composite) {
  auto& tables = part<AnnotationTables>();
  std::shared_lock<std::shared_mutex> guard(tables.mutex);
  std::vector<std::string> names;
  if (!tables.all.empty()) {
    for (const auto& [name, traits] : *tables.all.back()) {
      if (traits.composite == composite) {
        names.push_back(name);
      }
    }
  }
  return names;
}

} // namespace ftm
