#include "graph/pending.h"

#include "graph/location.h"
#include "process/capturing.h"

#include <atomic>

namespace ftm {
namespace {

uint64_t next_sequence = 0; // under the recorder's lock
std::atomic<int64_t> calls_since_cut{0}; // written under the recorder's lock

} // namespace

Value add_call(
    torch::lazy::OpKind kind, FormPtr form, c10::ArrayRef<Value> values, c10::ArrayRef<uint64_t> scalars) {
  auto node = std::make_shared<CallNode>(kind, std::move(form), ++next_sequence);
  if (!capturing) {
    calls_since_cut.store(pending_length() + 1, std::memory_order_relaxed);
  }
  if (const auto& location = noted_location()) {
    node->SetUserMetadata(location);
  }
  node->values.append(values.begin(), values.end());
  node->scalars.append(scalars.begin(), scalars.end());
  return Value(NodePtr(std::move(node)), 0);
}

int64_t pending_length() {
  return calls_since_cut.load(std::memory_order_relaxed);
}

void reset_pending_length() {
  calls_since_cut.store(0, std::memory_order_relaxed);
}

} // namespace ftm
