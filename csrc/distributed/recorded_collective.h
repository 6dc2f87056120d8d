// Collectives that are recorded: nodes of the pending trace, and instructions of its program.
//
// Example: DDP's all-reduce of a bucket is recorded as
//   %8, %9 = ftm::collective(self=%7, token=%3, kind="allreduce", reduction="add", size=[4096],
//                            call=$2) : f32[4096], u8[1]
// The second result is a token, which is the operand of the next collective. So the collectives of
// a trace form a chain: they keep their order, none is shared, and none is removed, since a
// variable always holds the last token. A collective of several tensors is recorded on their
// concatenation. One that gives this process nothing, such as a send, has an empty result, for
// which the program does not wait.
#pragma once

#include "distributed/collective.h"

namespace ftm {

// Whether a collective can be recorded: it has a kind, and dense tensors on one device, of one type
// that the machine has. Bytes are not recorded: objects, which are sent as bytes, have another size
// each time, and each would be a new program.
bool is_recordable(const Collective& collective);

// Records a collective. Must not be called under the recorder's lock.
c10::intrusive_ptr<c10d::Work> record_collective(
    Collective collective, int rank, Describe describe);

} // namespace ftm
