// A log of what the device's client does on the host: launches, waits, compilation, copies and
// fallbacks. Profilers show it. Thread-safe; without a log each event costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace ftm {

enum class HostEventKind : uint8_t {
  launch,
  wait,
  compile,
  copy_to_device,
  copy_to_host,
  fallback,
  collective,
  step
};

struct HostEvent {
  HostEventKind kind;
  std::string name;
  std::string line; // user code that caused it, or ""
  int64_t begin, end; // nanoseconds since 1970
  uint64_t thread; // the system's number of the thread
  int64_t bytes; // copied, or 0
};

// Memory of the device: a block that was taken (bytes > 0) or returned (bytes < 0).
struct MemoryEvent {
  int64_t time; // nanoseconds since 1970
  uintptr_t address;
  int64_t bytes;
  uint64_t run; // number of the run that takes it, or 0
  int64_t result; // of that run; -1: its scratch memory
};

int64_t nanoseconds_now();

void open_event_log();
bool event_log_is_open();
struct EventLog {
  std::vector<HostEvent> host;
  std::vector<MemoryEvent> memory;
};
// Closes the log and returns its events.
EventLog close_event_log();

void add_host_event(HostEvent event);
// The run for which this thread allocates memory.
void set_memory_owner(uint64_t run, int64_t result);
void add_memory_event(const void* address, int64_t bytes);

// Logs its scope as a host event, if there is a log when it begins.
class LoggedScope {
 public:
  explicit LoggedScope(HostEventKind kind, const char* name, int64_t bytes = 0);
  ~LoggedScope();
  LoggedScope(const LoggedScope&) = delete;
  LoggedScope& operator=(const LoggedScope&) = delete;

  // Sets details, which cost time to find: call it only if is_logged().
  bool is_logged() const { return begin_ != 0; }
  void set_line(std::string line) { line_ = std::move(line); }
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  HostEventKind kind_;
  std::string name_, line_;
  int64_t bytes_;
  int64_t begin_ = 0; // 0 if there is no log
};

} // namespace ftm
