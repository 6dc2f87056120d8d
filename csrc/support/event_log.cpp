#include "support/event_log.h"

#include "support/runtime.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

namespace ftm {
namespace {

struct OpenLog {
  std::atomic<bool> open{false};
  std::mutex mutex; // while it is held, no other lock is acquired
  EventLog events;
};

OpenLog& log() {
  return part<OpenLog>();
}

struct MemoryOwner {
  uint64_t run = 0;
  int64_t result = 0;
};
thread_local MemoryOwner memory_owner;

} // namespace

int64_t nanoseconds_now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

void open_event_log() {
  const std::lock_guard<std::mutex> guard(log().mutex);
  log().events = {};
  log().open = true;
}

bool event_log_is_open() {
  return log().open.load(std::memory_order_relaxed);
}

EventLog close_event_log() {
  const std::lock_guard<std::mutex> guard(log().mutex);
  log().open = false;
  return std::exchange(log().events, {});
}

void add_host_event(HostEvent event) {
  const std::lock_guard<std::mutex> guard(log().mutex);
  if (log().open) {
    log().events.host.push_back(std::move(event));
  }
}

void set_memory_owner(uint64_t run, int64_t result) {
  memory_owner = {run, result};
}

void add_memory_event(const void* address, int64_t bytes) {
  if (!event_log_is_open() || address == nullptr) {
    return;
  }
  const MemoryEvent event{
      nanoseconds_now(), reinterpret_cast<uintptr_t>(address), bytes, memory_owner.run,
      memory_owner.result};
  const std::lock_guard<std::mutex> guard(log().mutex);
  log().events.memory.push_back(event);
}

LoggedScope::LoggedScope(HostEventKind kind, const char* name, int64_t bytes)
    : kind_(kind), bytes_(bytes) {
  if (event_log_is_open()) {
    name_ = name;
    begin_ = nanoseconds_now();
  }
}

LoggedScope::~LoggedScope() {
  if (begin_ != 0) {
    add_host_event(
        {kind_, std::move(name_), std::move(line_), begin_, nanoseconds_now(),
         static_cast<uint64_t>(syscall(SYS_gettid)), bytes_});
  }
}

} // namespace ftm
