#include "ops/recording_table.h"

#include <c10/util/Exception.h>

#include <memory>
#include <shared_mutex>
#include <unordered_map>

namespace ftm {
namespace {

using FactsByName = std::unordered_map<std::string, RecordedFacts>;

struct Tables {
  std::shared_mutex mutex;
  std::vector<std::unique_ptr<const FactsByName>> all; // the last one holds; readers have references into the others
};

Tables& tables() {
  static auto* made = new Tables;
  return *made;
}

bool& flag_named(RecordedFacts& facts, const std::string& word) {
  static const std::unordered_map<std::string, bool RecordedFacts::*> flags = {
      {"cpu_indices", &RecordedFacts::cpu_indices},
      {"reads_apart", &RecordedFacts::reads_apart},
      {"value_is_number", &RecordedFacts::value_is_number},
      {"permissive_meta", &RecordedFacts::permissive_meta},
      {"refuses_values", &RecordedFacts::refuses_values},
      {"may_fail", &RecordedFacts::may_fail},
      {"one_dtype", &RecordedFacts::one_dtype},
      {"checks_out", &RecordedFacts::checks_out},
      {"converts_to_out", &RecordedFacts::converts_to_out},
      {"takes_no_bools", &RecordedFacts::takes_no_bools}};
  const auto found = flags.find(word);
  TORCH_CHECK_VALUE(found != flags.end(), "unknown fact of an op: '", word, "'");
  return facts.*(found->second);
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
  for (const auto& [name, constants, words, extent, argument, wraps, like] : rows) {
    RecordedFacts& facts = (*made)[name];
    facts.constants.insert(constants.begin(), constants.end());
    for (const auto& word : words) {
      flag_named(facts, word) = true;
    }
    facts.extent = extent;
    facts.index = static_cast<size_t>(argument);
    facts.wraps = wraps;
    facts.like = like;
  }
  auto& held = tables();
  std::unique_lock<std::shared_mutex> guard(held.mutex);
  held.all.push_back(std::move(made));
}

} // namespace ftm
