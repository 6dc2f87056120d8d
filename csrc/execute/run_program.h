// Runs one program of the run queue: on the launcher's thread, or, if it is short, on the thread
// that launches it. Of these threads one at a time runs a program.
#pragma once

#include "execute/run_queue.h"

#include <mutex>

namespace ftm {

// Runs a program, which next_job has returned, on this thread. Called with the queue's mutex, which
// is released during the run. If it is interrupted, the job stays in the queue, to run again when
// it is resumed.
void run_program(RunQueue& q, std::unique_lock<std::mutex>& lock, const JobPtr& job);

// Whether a job that has just been started is to run on the thread that started it: it is short,
// and the only one in the queue. It may be longer if the thread that launched its program last time
// went on to wait. Called with the queue's mutex.
bool runs_at_once(RunQueue& q, const JobPtr& job);

// Note for the next launch of a program whether a thread waits right after this one. Called with
// the queue's mutex: when a launch returns, and when a thread begins to wait for results.
void note_launched(RunQueue& q, const ProgramPtr& program);
void note_waiting(RunQueue& q);

} // namespace ftm
