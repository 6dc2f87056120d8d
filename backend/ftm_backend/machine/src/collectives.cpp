#include "collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "checker.h"
#include "core_state.h"

namespace ftm {
namespace {

using Message = std::array<char, 1024>;

// From now on, the run cannot be interrupted or repeated.
void note_communication(const Core& core) {
  Phase found = Phase::whole;
  if (!core.phase->compare_exchange_strong(found, Phase::communicated, std::memory_order_relaxed) &&
      found == Phase::stopping)
    throw Interrupted();
}

// A collective of this process alone: the result is what it contributes.
void run_alone(const ftm_collective& collective) {
  if (collective.count != collective.source_count)
    throw Fault("a collective of several processes in a group of one");
  const auto bytes = collective.count * size_t(type_bytes(Type(collective.dtype)));
  if (bytes != 0) std::memmove(collective.data, collective.source, bytes);
}

} // namespace

void Collectives::set_table(const ftm_collectives& table) {
  std::lock_guard<std::mutex> lock(mutex_);
  table_ = table;
}

ftm_collectives Collectives::table() {
  std::lock_guard<std::mutex> lock(mutex_);
  return table_;
}

void Collectives::start(const ftm_collective& collective) {
  const ftm_collectives functions = table();
  if (collective.call == 0 || !functions.start) {
    run_alone(collective);
  } else {
    Message message{};
    if (functions.start(functions.user, &collective, message.data(), message.size()) != 0)
      throw Fault(message.data());
  }
  std::lock_guard<std::mutex> lock(mutex_);
  in_flight_.push_back(collective.call);
}

void Collectives::wait(int64_t call) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find(in_flight_.begin(), in_flight_.end(), call);
    if (found == in_flight_.end())
      throw Fault("waits for collective " + std::to_string(call) + ", which is not in flight");
    in_flight_.erase(found);
  }
  const std::string failure = finish(call);
  if (!failure.empty()) throw Fault(failure);
}

void Collectives::end_run(bool has_failed) {
  std::vector<int64_t> calls;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(in_flight_);
  }
  for (const int64_t call : calls)
    if (has_failed) finish(call);
}

std::string Collectives::finish(int64_t call) {
  const ftm_collectives functions = table();
  Message message{};
  if (call == 0 || !functions.wait ||
      functions.wait(functions.user, call, message.data(), message.size()) == 0)
    return "";
  return message.front() != 0 ? message.data() : "a collective has failed";
}

namespace {

// Returns the address of elements of a buffer.
uint8_t* region(Core& core, int32_t buffer, int64_t at, int64_t count) {
  const View& view = core.views[buffer];
  if (at < 0 || count < 0 || at > view.elements || count > view.elements - at)
    throw Fault(
        "communicates elements " + std::to_string(at) + " to " + std::to_string(at + count) +
        " of " + core.buffer_name(buffer));
  return view.base + at * type_bytes(core.program->buffers[size_t(buffer)].type);
}

} // namespace

void start_collective(Core& core, const CollectiveOperands& operands) {
  const int64_t to = core.value(operands.target_offset), count = core.value(operands.target_count);
  const int64_t from = core.value(operands.source_offset),
                source_count = core.value(operands.source_count);
  uint8_t* target = region(core, operands.target, to, count);
  const uint8_t* source = region(core, operands.source, from, source_count);
  for (int64_t i = 0; core.checker && i < source_count; ++i)
    core.checker->read_element(operands.source, from + i);
  for (int64_t i = 0; core.checker && i < count; ++i)
    core.checker->write_element(operands.target, to + i);
  note_communication(core);
  note_write(core, operands.target);
  const Type type = core.program->buffers[size_t(operands.target)].type;
  core.collectives->start(
      {sizeof(ftm_collective), operands.kind, operands.reduction, int32_t(type),
       core.value(operands.call), source, uint64_t(source_count), target, uint64_t(count)});
}

} // namespace ftm
