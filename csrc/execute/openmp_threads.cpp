#include "execute/openmp_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <thread>

// The runtime function of `#pragma omp parallel`: calls work(data) on `threads` threads, of which
// the calling thread is one. Null if libgomp, which PyTorch brings, is not loaded.
extern "C" __attribute__((weak)) void GOMP_parallel(
    void (*work)(void*), void* data, unsigned threads, unsigned flags);

namespace ftm {
namespace {

void sleep_forever(void*) {
  while (true) {
    pause();
  }
}

} // namespace

bool reserve_cpus_for_machine(int count) {
  if (GOMP_parallel == nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr ||
      std::getenv("GOMP_SPINCOUNT") != nullptr) {
    return false;
  }
  // One more, since the runtime does not count the thread that begins the parallel region.
  std::thread([count] {
    GOMP_parallel(sleep_forever, nullptr, static_cast<unsigned>(count) + 1, 0);
  }).detach();
  return true;
}

} // namespace ftm
