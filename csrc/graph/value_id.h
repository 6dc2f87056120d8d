// The number of a value in a graph: of a parameter, or of a call's result. Results are numbered
// over all calls.
#pragma once

#include <cstdint>

namespace ftm {

class ValueNumber {
 public:
  static ValueNumber parameter(int64_t index) { return ValueNumber(2 * index); }
  static ValueNumber result(int64_t index) { return ValueNumber(2 * index + 1); }

  bool is_parameter() const { return word_ % 2 == 0; }
  int64_t index() const { return word_ / 2; }
  uint64_t word() const { return static_cast<uint64_t>(word_); } // for hashes

 private:
  explicit ValueNumber(int64_t word) : word_(word) {}

  int64_t word_; // even: a parameter; odd: a result
};

} // namespace ftm
