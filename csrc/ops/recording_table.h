// The table of what schemas don't say, as the op records have it (backend/ftm_backend/frontend/ops/recording.py).
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace ftm {

struct RecordedFacts {
  std::unordered_set<std::string> constants; // Scalars that shape the program
  bool cpu_indices = false;
  bool reads_apart = false;
  bool value_is_number = false;
  bool permissive_meta = false;
  bool refuses_values = false;
  bool may_fail = false;
  bool one_dtype = false;
  bool checks_out = false;
  bool converts_to_out = false;
  bool takes_no_bools = false;
  std::string extent; // what its indices lie in; empty: it takes none
  size_t index = 0; // argument
  bool wraps = false;
  int64_t like = -1; // argument whose memory format the first result has on the CPU
};

// Of a name without overload; lives for ever.
const RecordedFacts& recorded_facts(const std::string& op);

// Name without overload; constants; the words for what holds; extent, argument and wrapping of indices; like.
using RecordingRow =
    std::tuple<std::string, std::vector<std::string>, std::vector<std::string>, std::string, int64_t, bool, int64_t>;

// Replaces the table; forget_forms makes ops read it. Throws ValueError for a word that nothing here knows.
void set_recording(const std::vector<RecordingRow>& rows);

} // namespace ftm
