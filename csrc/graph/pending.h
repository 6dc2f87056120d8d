// What has been recorded and is not launched yet grows by one call at a time.
#pragma once

#include "graph/node.h"

namespace ftm {

// A node for one call of `form`, under the recorder's lock.
Value add_call(
    torch::lazy::OpKind kind, FormPtr form, c10::ArrayRef<Value> values,
    c10::ArrayRef<uint64_t> scalars);

// Calls recorded since the last cut. The lock is needed only for a number that stays true.
int64_t pending_length();
// A cut takes them all. Under the recorder's lock.
void reset_pending_length();

} // namespace ftm
