#include "execute/launch_count.h"

#include "support/runtime.h"

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

} // namespace

void forbid_launch(std::string why) {
  const std::lock_guard<std::mutex> guard(part<Launches>().mutex);
  part<Launches>().forbidden = std::move(why);
}

std::string forbidden_launch() {
  const std::lock_guard<std::mutex> guard(part<Launches>().mutex);
  return part<Launches>().forbidden;
}

void check_launch() {
  const std::string why = forbidden_launch();
  TORCH_CHECK(why.empty(), why);
}

void count_launch(const Hash128& program) {
  const std::lock_guard<std::mutex> guard(part<Launches>().mutex);
  ++part<Launches>().count;
  part<Launches>().last = program;
}

int64_t launches() {
  const std::lock_guard<std::mutex> guard(part<Launches>().mutex);
  return part<Launches>().count;
}

std::string last_program() {
  const std::lock_guard<std::mutex> guard(part<Launches>().mutex);
  char text[33];
  std::snprintf(
      text, sizeof(text), "%016" PRIx64 "%016" PRIx64, part<Launches>().last.high,
      part<Launches>().last.low);
  return text;
}

} // namespace ftm
