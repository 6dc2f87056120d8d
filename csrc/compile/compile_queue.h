// A thread that builds what was cut where nobody waits for a result, as at the end of a step: the
// program goes on recording meanwhile.
#pragma once

#include "partition/launch_plan.h"

#include <vector>

namespace ftm {

// Builds and starts these on the builder's thread, behind those that it has; waits where it has
// many.
void build_later(std::vector<LaunchUnit> cuts);
// Builds and starts these here, when what was given to the builder has been.  Throws what keeps
// them from being built.
void build_now(std::vector<LaunchUnit> cuts);
// The same for who then waits for results, on the builder's thread where handlers of signals run on
// this one: they may ask for results too, and what compiles could not go on before they return.
void build_and_wait(std::vector<LaunchUnit> cuts);
// Builds here what an interrupt or a missing compiler kept from being built; who waits for jobs
// does so.
void resume_building();

// Waits until everything is built, and ends the thread; after an interrupt, what nobody waits for
// is left.
void stop_builder();

} // namespace ftm
