// Shares the CPUs between the machine's threads and OpenMP's, on which PyTorch's CPU kernels run.
#pragma once

namespace ftm {

// After a parallel region, OpenMP's threads spin for milliseconds in case another one follows,
// which takes CPUs from the machine. GNU's runtime lets them sleep at once if there are more
// threads than CPUs, but it counts only its own threads. This adds as many OpenMP threads as the
// machine has, which sleep forever. Returns false, and does nothing, if PyTorch uses another
// runtime or the environment sets the threads' wait policy. Call it once.
bool reserve_cpus_for_machine(int count);

} // namespace ftm
