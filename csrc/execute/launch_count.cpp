#include "execute/launch_count.h"

#include <c10/util/Exception.h>

#include <cinttypes>
#include <cstdio>
#include <mutex>

namespace ftm {
namespace {

struct Launches {
  std::mutex mutex; // acquired alone, or while the recorder's lock is held
  std::string forbidden;
  int64_t count = 0;
  Hash128 last;
};

Launches& state() {
  static auto* instance = new Launches;
  return *instance;
}

} // namespace

void forbid_launch(std::string why) {
  const std::lock_guard<std::mutex> guard(state().mutex);
  state().forbidden = std::move(why);
}

std::string forbidden_launch() {
  const std::lock_guard<std::mutex> guard(state().mutex);
  return state().forbidden;
}

void check_launch() {
  const std::string why = forbidden_launch();
  TORCH_CHECK(why.empty(), why);
}

void count_launch(const Hash128& program) {
  const std::lock_guard<std::mutex> guard(state().mutex);
  ++state().count;
  state().last = program;
}

int64_t launches() {
  const std::lock_guard<std::mutex> guard(state().mutex);
  return state().count;
}

std::string last_program() {
  const std::lock_guard<std::mutex> guard(state().mutex);
  char text[33];
  std::snprintf(
      text, sizeof(text), "%016" PRIx64 "%016" PRIx64, state().last.high, state().last.low);
  return text;
}

} // namespace ftm
