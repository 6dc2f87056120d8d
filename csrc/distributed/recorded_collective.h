// Collectives that are recorded: nodes of the pending trace, and instructions of its program.
//
// Example: DDP's all-reduce of a bucket is recorded as
//   %8, %9 = ftm::all_reduce(self=%7, token=%3, reduction="add", call=$2) : f32[4096], u8[1]
// The second result is a token, which is the operand of the next collective. So the collectives of
// a trace form a chain: they keep their order, none is shared, and none is removed, since a
// variable always holds the last token.
#pragma once

#include "distributed/collective.h"

namespace ftm {

// Whether an all-reduce can be recorded: it has one dense tensor on the device, of a type that the
// machine has.
bool is_recordable(const Collective& collective);

// Records an all-reduce. `reduction` is the attribute of the op. Must not be called under the
// recorder's lock.
c10::intrusive_ptr<c10d::Work> record_all_reduce(
    Collective collective, const std::string& reduction, int rank, Describe describe);

} // namespace ftm
