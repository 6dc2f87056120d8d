#include "execute/openmp_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <thread>

// What a compiler makes of `#pragma omp parallel`: calls work(data) on so many threads, the calling
// one among them. Null without GNU's runtime, which PyTorch brings along.
extern "C" __attribute__((weak)) void GOMP_parallel(
    void (*work)(void*), void* data, unsigned threads, unsigned flags);

namespace ftm {
namespace {

void sleep_for_ever(void*) {
  while (true) {
    pause();
  }
}

} // namespace

bool stand_in_for_machine_threads(int count) {
  if (GOMP_parallel == nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr ||
      std::getenv("GOMP_SPINCOUNT") != nullptr) {
    return false;
  }
  // One more, since the runtime does not count a thread that is not its own and begins a parallel
  // region.
  std::thread([count] {
    GOMP_parallel(sleep_for_ever, nullptr, static_cast<unsigned>(count) + 1, 0);
  }).detach();
  return true;
}

} // namespace ftm
