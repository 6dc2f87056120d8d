// Named event counters, shared with Python (`ftm_lazy.metrics`). Every function may run on any
// thread; the table has a mutex, the cells are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace ftm {

// Returns the counter's cell, which is created at 0 and lives for the rest of the process. On hot
// paths, look it up once and keep the reference.
std::atomic<int64_t>& counter(const std::string& name);

// Returns a snapshot of all counters by name.
std::map<std::string, int64_t> counter_values();

// Sets every counter to zero.
void reset_counters();

} // namespace ftm
