#include "collectives.h"

#include <algorithm>
#include <array>

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

} // namespace

void Collectives::set_table(const ftm_collectives& table) {
  std::lock_guard<std::mutex> lock(mutex_);
  table_ = table;
}

void Collectives::start(const ftm_collective& collective) {
  ftm_collectives table{};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    table = table_;
  }
  Message message{};
  if (table.start && table.start(table.user, &collective, message.data(), message.size()) != 0)
    throw Fault(message.data());
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

std::string Collectives::wait_for_all() {
  std::vector<int64_t> calls;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(in_flight_);
  }
  std::string failure;
  for (const int64_t call : calls) {
    const std::string message = finish(call);
    if (failure.empty()) failure = message;
  }
  return failure;
}

std::string Collectives::finish(int64_t call) {
  ftm_collectives table{};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    table = table_;
  }
  Message message{};
  if (!table.wait || table.wait(table.user, call, message.data(), message.size()) == 0) return "";
  return message.front() != 0 ? message.data() : "a collective has failed";
}

void run_all_reduce(Core& core, const AllReduce& operands) {
  const int64_t at = core.value(operands.offset), count = core.value(operands.count);
  const View& view = core.views[operands.buffer];
  if (at < 0 || count < 0 || at > view.elements || count > view.elements - at)
    throw Fault(
        "reduces elements " + std::to_string(at) + " to " + std::to_string(at + count) + " of " +
        core.buffer_name(operands.buffer));
  for (int64_t i = at; core.checker && i < at + count; ++i) {
    core.checker->read_element(operands.buffer, i);
    core.checker->write_element(operands.buffer, i);
  }
  note_communication(core);
  note_write(core, operands.buffer);
  const Type type = core.program->buffers[size_t(operands.buffer)].type;
  core.collectives->start(
      {sizeof(ftm_collective), FTM_ALL_REDUCE, operands.reduction, int32_t(type),
       core.value(operands.call), view.base + at * type_bytes(type), uint64_t(count)});
}

} // namespace ftm
