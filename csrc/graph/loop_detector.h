// Decides where to cut a pending trace of a loop that never reads a value. Without cuts, it would
// become one program of all iterations. With cuts, it is launched in segments of a few iterations,
// which share one program.
//
//  - When a trace has grown long and ends in a loop (graph/repeat_finder.h), it is cut in the next
//    iteration, at the call with the fewest pending values.
//  - From then on, the loop is cut whenever enough iterations are recorded to be worth a program.
//  - Each cut is remembered for the whole process by the calls since the cut before it. The same
//    calls are cut there immediately in every later step.
//
// Traces that are short, or do not repeat, are not cut here. View calls are ignored: whether one is
// recorded depends on where the last cut was.
#pragma once

#include "graph/ordered_graph.h"
#include "graph/repeat_finder.h"

#include <atomic>
#include <vector>

namespace ftm {

// The calls of a pending trace. Guarded by the recorder's lock, except `is_check_due`.
class CallLog {
 public:
  CallLog();

  // Appends a call. `pending` is the number of variables whose values are pending before it.
  void add(const CallSpec& spec, size_t pending);
  // Forgets all calls. Call it when the trace is cut.
  void clear();

  // Whether `should_cut` must be called before the next call of the user's program is recorded.
  // Needs no lock.
  bool is_check_due() const {
    return length_.load(std::memory_order_relaxed) >= next_check_.load(std::memory_order_relaxed);
  }
  // Whether the trace must be cut now; if so, the caller also clears the log.
  bool should_cut();
  // After `should_cut` returned true: whether the calls are whole iterations of a loop, as many as
  // in every other segment of it.
  bool is_loop_segment() const { return is_loop_segment_; }

 private:
  bool reached_planned_cut();
  void schedule_check();

  std::vector<LoggedCall> calls_;
  size_t hashed_ = 0; // number of calls that hash_ covers
  uint64_t hash_ = 0; // their sequence_hash
  std::optional<LoopCut> plan_;
  bool is_loop_segment_ = false;
  size_t next_search_; // number of calls at which to search for a loop next
  std::atomic<size_t> length_{0};
  std::atomic<size_t> next_check_{0};
};

// Records the loops of a graph that is cut into iterations at its launch
// (partition/unrolled_loops.h). While such a loop is recorded, its trace is cut only when it is 8
// times as long as other traces may be. So programs depend on the length of an iteration, not on
// the number of iterations.
void note_unrolled(const Graph& graph);

// Sets the number of calls from which on a trace that repeats itself is cut; 0 turns it off.
// Throws ValueError if negative. Follow it by Runtime::reset, since earlier cuts depend on it.
void set_loop_length(int64_t calls);
// Whether traces are cut at loops at all.
bool cuts_loops();

} // namespace ftm
