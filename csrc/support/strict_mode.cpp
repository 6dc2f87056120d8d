#include "support/strict_mode.h"

#include <atomic>

namespace ftm {
namespace {

std::atomic<bool> strict_mode{false};

} // namespace

void set_strict(bool strict) {
  strict_mode = strict;
}

bool is_strict() {
  return strict_mode;
}

} // namespace ftm
