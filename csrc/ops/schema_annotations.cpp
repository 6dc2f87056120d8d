#include "ops/schema_annotations.h"

#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace ftm {
namespace {

using FactsByName = std::unordered_map<std::string, RecordedFacts>;
using Words = std::vector<std::string>;

struct Tables {
  std::shared_mutex mutex;
  std::vector<std::unique_ptr<const FactsByName>>
      all; // the last one holds; readers have references into the others
};

Tables& tables() {
  static auto* made = new Tables;
  return *made;
}

template <typename Value>
Value named(const std::unordered_map<std::string, Value>& values, const std::string& word) {
  const auto found = values.find(word);
  TORCH_CHECK_VALUE(found != values.end(), "unknown word among the facts of an op: '", word, "'");
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

using Reader = std::function<void(RecordedFacts&, const Words&)>;

Reader flag(bool RecordedFacts::* member) {
  return [member](RecordedFacts& facts, const Words&) { facts.*member = true; };
}

const std::unordered_map<std::string, Reader>& readers() {
  using F = RecordedFacts;
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

const RecordedFacts& recorded_facts(const std::string& op) {
  static const RecordedFacts none;
  auto& held = tables();
  std::shared_lock<std::shared_mutex> guard(held.mutex);
  if (held.all.empty()) {
    return none;
  }
  const auto found = held.all.back()->find(op);
  return found == held.all.back()->end() ? none : found->second;
}

void set_recording(const std::vector<RecordingRow>& rows) {
  auto made = std::make_unique<FactsByName>();
  for (const auto& [name, said] : rows) {
    RecordedFacts& facts = (*made)[name];
    for (const auto& [fact, words] : said) {
      named(readers(), fact)(facts, words);
    }
  }
  auto& held = tables();
  std::unique_lock<std::shared_mutex> guard(held.mutex);
  held.all.push_back(std::move(made));
}

std::vector<std::string> names_with(CompositeUse composite) {
  auto& held = tables();
  std::shared_lock<std::shared_mutex> guard(held.mutex);
  std::vector<std::string> names;
  if (!held.all.empty()) {
    for (const auto& [name, facts] : *held.all.back()) {
      if (facts.composite == composite) {
        names.push_back(name);
      }
    }
  }
  return names;
}

} // namespace ftm
