// Where a pending trace is cut, as far as its own calls say it: a loop that reads nothing shall not
// grow into one program of all its iterations, but be launched piece by piece, each piece the same
// program.
//
// A trace that has grown long is looked at: if it ends in a loop (repetition.h), it is cut in the
// iteration that goes on, where the least has to be kept. From there on the loop is cut whenever as
// many iterations have been recorded as make a piece worth a program. What was cut once is
// remembered for the whole process, by the calls since the cut before: the same calls are cut at
// the same place in every later step, at once. Short traces and traces that do not repeat are left
// alone.
//
// Views are no part of all this: whether one is recorded depends on where the cut before was.
#pragma once

#include "graph/ordered_graph.h"
#include "graph/repeat_finder.h"

#include <atomic>
#include <vector>

namespace ftm {

// The calls of a pending trace. Under the recorder's lock, but for `due`.
class CallLog {
 public:
  CallLog();

  // `pending`: the variables whose value is pending before the call.
  void add(const CallSpec& spec, size_t pending);
  void clear();

  // Whether `cuts_here` has to be asked before the next call of the user's program is recorded.
  bool due() const {
    return length_.load(std::memory_order_relaxed) >= stop_.load(std::memory_order_relaxed);
  }
  // True: the trace is to be cut, and the log cleared, now.
  bool cuts_here();
  // What is cut there is a piece of a loop, as many iterations as all such pieces, and nothing
  // else.
  bool is_loop_piece() const { return is_loop_piece_; }

 private:
  bool is_planned();
  void find_stop();

  std::vector<LoggedCall> calls_;
  size_t hashed_ = 0; // of the calls; their sequence_hash:
  uint64_t hash_ = 0;
  std::optional<LoopCut> plan_;
  bool is_loop_piece_ = false;
  size_t look_at_; // the number of calls with which a loop is looked for next
  std::atomic<size_t> length_{0};
  std::atomic<size_t> stop_{0};
};

// The loops of a graph that is cut into iterations when it is launched
// (partition/unrolled_loops.h): while it is recorded, a trace is cut in them only when it is many
// times as long as others may be. So how long an iteration is decides about programs, and not how
// many there were.
void note_unrolled(const Graph& graph);

// The number of calls from which on a trace that repeats itself is cut; 0: none is. What was
// remembered is forgotten.
void set_loop_length(int64_t calls);
bool cuts_loops();

} // namespace ftm
