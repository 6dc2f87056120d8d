#include "distributed/backend.h"

#include "distributed/recorded_collective.h"
#include "distributed/reductions.h"
#include "execute/launcher.h"
#include "partition/whole_programs.h"
#include "support/event_log.h"
#include "support/gil.h"
#include "support/shutdown.h"
#include "sync/cut_trace.h"

#include <ATen/ops/empty.h>
#include <sys/syscall.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace ftm {
namespace {

constexpr auto kReportTime = std::chrono::seconds(2);
constexpr auto kReportPoll = std::chrono::milliseconds(50);

std::string join(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

// Logs the time from the beginning to the end of a collective as an event of profiles.
void log_span(Collective& collective) {
  const auto begun = std::make_shared<int64_t>(0);
  collective.begin = [begun, begin = std::move(collective.begin)](
                         Tensors& inputs, Tensors& outputs) {
    *begun = nanoseconds_now();
    return begin(inputs, outputs);
  };
  const auto place = python_line(pending_trace().owner);
  const std::string line = place ? *place : "";
  collective.end = [begun, line, name = collective.name, end = std::move(collective.end)](
                       Tensors& inputs, Tensors& outputs) {
    if (end) {
      end(inputs, outputs);
    }
    int64_t bytes = 0;
    for (const auto& tensor : outputs) {
      bytes += static_cast<int64_t>(tensor.nbytes());
    }
    add_host_event(
        {HostEventKind::collective, name, line, *begun, nanoseconds_now(),
         static_cast<uint64_t>(syscall(SYS_gettid)), bytes});
  };
}

// Works that end together.
class WorkList final : public c10d::Work {
 public:
  explicit WorkList(std::vector<WorkPtr> works)
      : Work(-1, c10d::OpType::COALESCED), works_(std::move(works)) {}
  bool isCompleted() override {
    return std::all_of(
        works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(
        works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isSuccess(); });
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& work : works_) {
      work->wait(timeout);
    }
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override {
    Tensors results;
    for (const auto& work : works_) {
      const auto part = work->result();
      results.insert(results.end(), part.begin(), part.end());
    }
    return results;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>());
    wait(kNoTimeout);
    future->markCompleted(c10::IValue(result()));
    return future;
  }

 private:
  std::vector<WorkPtr> works_;
};

} // namespace

FaultReports::FaultReports(const StorePtr& store, int rank, int size)
    : store_(store->clone()), rank_(rank), size_(size) {}

std::string FaultReports::missing(uint64_t sequence) const {
  const auto key = [&](int rank) {
    return "failed/" + std::to_string(sequence) + "/" + std::to_string(rank);
  };
  std::vector<int> missing;
  try {
    store_->set(key(rank_), std::vector<uint8_t>{1});
    for (int rank = 0; rank < size_; ++rank) {
      missing.push_back(rank);
    }
    const auto deadline = std::chrono::steady_clock::now() + kReportTime;
    while (true) {
      std::erase_if(missing, [&](int rank) { return store_->check({key(rank)}); });
      if (missing.empty() || std::chrono::steady_clock::now() >= deadline) {
        break;
      }
      std::this_thread::sleep_for(kReportPoll);
    }
  } catch (const std::exception&) {
    return "; the group's store cannot be reached, so the process that has it has ended";
  }
  return missing.empty() ? "" : "; no answer from rank " + join(missing);
}

GroupBackend::GroupBackend(
    const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout,
    MakeCarrier make_carrier)
    : Backend(rank, size),
      make_carrier_(std::move(make_carrier)),
      options_(c10::make_intrusive<GroupOptions>(timeout)),
      reports_(std::make_shared<FaultReports>(store, rank, size)) {
  carrier_ = make_carrier_(store, rank, size, timeout);
  if (size > 1) {
    make_takeover_deterministic();
  }
  init();
}

// While the interpreter is finalized, a thread of the carrier may be parked with the carrier's
// lock, as it needed the GIL to release a tensor (support/shutdown.h). The carrier's destructor
// would wait for that lock forever, so the carrier lives until the process is gone.
GroupBackend::~GroupBackend() {
  if (is_shutting_down()) {
    carrier_.release();
  }
}

Describe GroupBackend::prepare(Collective& collective) {
  TORCH_CHECK(!is_shut_down_, "the process group ", pg_uid_, " has been shut down");
  // The carrier lives until the collective has ended.
  collective.begin = [carrier = carrier_, begin = std::move(collective.begin)](
                         Tensors& inputs, Tensors& outputs) { return begin(inputs, outputs); };
  // All processes take part in a collective, so they all have the same count. A message between
  // two of them is not counted.
  const uint64_t sequence = collective.is_message ? 0 : ++sequence_;
  if (event_log_is_open()) {
    log_span(collective);
  }
  return [reports = reports_, rank = rank_, size = size_, sequence,
          group = pg_desc_.empty() || pg_desc_ == "undefined"
                      ? pg_uid_
                      : pg_uid_ + " (" + pg_desc_ + ")"](const std::string& call) {
    return "(" + call + ", on rank " + std::to_string(rank) + " of " + std::to_string(size) +
           " in group " + group + (sequence == 0 ? "" : reports->missing(sequence)) + ")";
  };
}

WorkPtr GroupBackend::enqueue(Collective collective) {
  auto describe = prepare(collective);
  auto work = is_recordable(collective)
                  ? record_collective(std::move(collective), rank_, std::move(describe))
                  : enqueue_collective(std::move(collective), rank_, std::move(describe));
  if (coalesces_) {
    coalesced_.push_back(work);
  }
  return work;
}

void GroupBackend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  carrier_->setTimeout(timeout);
}

void GroupBackend::startCoalescing() {
  coalesces_ = true;
}

WorkPtr GroupBackend::endCoalescing() {
  coalesces_ = false;
  return c10::make_intrusive<WorkList>(std::exchange(coalesced_, {}));
}

BackendPtr GroupBackend::split(
    const StorePtr& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) {
    return nullptr;
  }
  auto group = c10::make_intrusive<GroupBackend>(
      store, static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size()),
      options ? options->timeout : options_->timeout, make_carrier_);
  if (options) {
    group->options_->group_name = options->group_name;
    group->options_->global_ranks_in_group = options->global_ranks_in_group;
  }
  return group;
}

void GroupBackend::abort() {
  carrier_->abort();
}

void GroupBackend::shutdown() {
  // The other processes may still need what this one has recorded.
  sync(/*wait=*/true);
  carrier_->shutdown();
  is_shut_down_ = true;
}

WorkPtr GroupBackend::barrier(const c10d::BarrierOptions& options) {
  const GilRelease unlocked;
  sync(/*wait=*/false);
  Collective collective{"barrier", c10d::OpType::BARRIER};
  collective.blocks = true;
  collective.begin = [carrier = carrier_.get(), options](Tensors&, Tensors&) {
    return Works{carrier->barrier(options)};
  };
  return enqueue(std::move(collective));
}

void GroupBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const GilRelease unlocked;
  sync(/*wait=*/true);
  carrier_->monitoredBarrier(options, wait_for_all);
}

} // namespace ftm
