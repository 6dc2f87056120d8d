// Named event counters, shared with the Python side (`ftm_lazy.metrics`).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace ftm {

// The counter's cell; lives for ever. Look it up once and keep the reference where it matters.
std::atomic<int64_t>& counter(const std::string& name);

std::map<std::string, int64_t> counter_values();

// Sets every counter to zero.
void reset_counters();

} // namespace ftm
