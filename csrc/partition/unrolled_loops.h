// Cuts traces with loops that the user's program has unrolled: a cell over the steps of a sequence,
// an inner optimizer, the terms of a loss; the layers of a deep network, whose forward passes,
// backward passes and optimizer steps are loops as well; and concatenations of a loop's results.
//
//  A trace with a loop becomes one program as any other trace, with these exceptions:
//  - The number of iterations varies. Once a trace has the same iteration another number of times,
//    traces with this loop are cut into segments of one or a few iterations, so that a few programs
//    serve every number.
//  - The trace is long. It is cut, and stays cut, if that leaves at most two fifths of its calls to
//    compile, because most subgraphs share a program.
//  - The number of concatenated values varies. The concatenation becomes calls with 64, 16, 4
//    or 2 values each (partition/split_concat.h).
//  - The order of operations varies. Common segments of traces become programs
//    (partition/shared_segments.h).
#pragma once

#include "partition/subgraphs.h"

#include <optional>

namespace ftm {

// A trace that is launched in pieces again and again gets one program in the end
// (partition/whole_programs.h).

// Partitions a graph that has no program by the rules above. Returns nullopt if it should become
// one program. Called under the recorder's lock.
std::optional<PartitionedGraph> split_loops(const Graph& graph);

} // namespace ftm
