#include "graph/recorder_lock.h"

namespace ftm {

std::mutex& recorder_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

} // namespace ftm
