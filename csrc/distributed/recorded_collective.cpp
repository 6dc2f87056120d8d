#include "distributed/recorded_collective.h"

#include "distributed/collective_tokens.h"
#include "distributed/waiters.h"
#include "execute/host_collective.h"
#include "execute/launcher.h"
#include "support/capture_mode.h"
#include "support/counters.h"
#include "support/gil.h"
#include "sync/cut_trace.h"
#include "tensor/tensor_access.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace ftm {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor>;
using AllReduce =
    Results(const at::Tensor&, const at::Tensor&, c10::string_view, const at::Scalar&);

class RecordedCollective final : public HostCollective,
                                 public std::enable_shared_from_this<RecordedCollective> {
 public:
  RecordedCollective(Collective collective, std::string called, Describe describe)
      : collective_(std::move(collective)),
        dtype_(collective_.outputs[0].scalar_type()),
        sizes_(collective_.outputs[0].sizes()),
        called_(std::move(called)),
        describe_(std::move(describe)) {
    collective_.outputs.clear(); // the program has its memory
  }

  void set_job(const JobPtr& job) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    job_ = job;
  }

  void start(void* data) override {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      TORCH_CHECK(!std::exchange(has_started_, true), called_, " has run already");
    }
    outputs_ = {at::from_blob(data, sizes_, at::TensorOptions().dtype(dtype_))};
    try {
      works_ = collective_.begin(inputs_, outputs_);
    } catch (const std::exception& error) {
      complete(failure_from(error, describe_(called_)));
      throw;
    }
    run_on_waiter([self = shared_from_this()] {
      FailurePtr failure;
      try {
        self->wait_for_works();
      } catch (const std::exception& error) {
        failure = failure_from(error, self->describe_(self->called_));
      }
      self->complete(failure);
    });
  }

  void wait() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return is_complete_; });
    if (failure_) {
      throw std::runtime_error(failure_->message);
    }
  }

  void end(const FailurePtr& failure) override {
    bool has_run = false;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      has_run = is_complete_;
      job_.reset();
    }
    if (!has_run) {
      complete(failure);
    }
  }

  FailurePtr failure() const override {
    const std::lock_guard<std::mutex> guard(mutex_);
    return failure_;
  }

  bool is_complete() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return is_complete_;
  }

  // Returns the job that has the call, or null if it has ended, or does not exist yet.
  JobPtr job() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return job_;
  }

 private:
  void wait_for_works() {
    for (const auto& work : works_) {
      work->wait();
    }
    if (collective_.end) {
      collective_.end(inputs_, outputs_);
    }
  }

  // Drops what the communication needed.
  void complete(FailurePtr failure) {
    works_.clear();
    outputs_.clear();
    collective_ = {};
    const std::lock_guard<std::mutex> guard(mutex_);
    failure_ = std::move(failure);
    is_complete_ = true;
    changed_.notify_all();
  }

  // Used by one thread at a time: the one that starts, then the one that waits for the works.
  Collective collective_;
  Tensors inputs_, outputs_; // on the host, while in flight
  Works works_;

  const at::ScalarType dtype_;
  const c10::DimVector sizes_;
  const std::string called_; // name, tensor and place of the call
  const Describe describe_;

  mutable std::mutex mutex_; // acquired alone; guards the members below
  std::condition_variable changed_;
  bool has_started_ = false;
  bool is_complete_ = false; // or will never run
  FailurePtr failure_;
  JobPtr job_;
};

class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(
      int rank, c10d::OpType type, std::shared_ptr<RecordedCollective> collective, Tensors results)
      : Work(rank, type), collective_(std::move(collective)), results_(std::move(results)) {}

  bool isCompleted() override {
    if (!collective_->is_complete()) {
      launch_recorded_collectives();
    }
    return collective_->is_complete();
  }
  bool isSuccess() const override { return collective_->is_complete() && !collective_->failure(); }
  std::exception_ptr exception() const override {
    const auto failure = collective_->failure();
    return failure ? std::make_exception_ptr(std::runtime_error(failure->message)) : nullptr;
  }
  std::vector<at::Tensor> result() override { return results_; }
  void synchronize() override { wait(kNoTimeout); }

  // Returns at once without a timeout: later operations on the tensor are ordered behind the
  // collective anyway.
  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout != kNoTimeout && !collective_->is_complete()) {
      launch_recorded_collectives();
      const auto job = collective_->job();
      TORCH_CHECK(
          !job || wait_for_job(job, timeout), c10d::opTypeToString(opType_),
          " has not ended within ", timeout.count(), " ms");
    }
    if (const auto failure = collective_->failure()) {
      throw_failure(*failure);
    }
    return true;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>());
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  std::shared_ptr<RecordedCollective> collective_;
  Tensors results_;
};

// Records the call, and makes its results the values of the tensor and of the token.
void record(const at::Tensor& tensor, const std::string& reduction, int64_t number) {
  static std::mutex order; // acquired before the recorder's lock, and never with the GIL
  const std::lock_guard<std::mutex> guard(order);
  launch_recorded_collectives(/*except=*/tensor.device().index());
  const at::Tensor token = token_of(tensor.device());
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ftm::all_reduce", "").typed<AllReduce>();
  const auto [result, next] = op.call(tensor, token, reduction, number);
  auto& own = pending_trace();
  const RecorderLock lock = lock_to_read(
      {tensor.unsafeGetTensorImpl(), result.unsafeGetTensorImpl(), next.unsafeGetTensorImpl()},
      own);
  write(*tensor.unsafeGetTensorImpl(), read(*result.unsafeGetTensorImpl()), own);
  write(*token.unsafeGetTensorImpl(), read(*next.unsafeGetTensorImpl()), own);
}

// The op on the CPU, where programs that are not compiled run. Without a job, the call is a trial
// of eager's checks, which have the op's arguments before it is recorded.
Results all_reduce_on_cpu(
    const at::Tensor& self, const at::Tensor& token, c10::string_view, const at::Scalar& call) {
  at::Tensor result = self.clone(at::MemoryFormat::Contiguous);
  const auto collective =
      call.toLong() == 0
          ? nullptr
          : std::static_pointer_cast<RecordedCollective>(find_collective(call.toLong()));
  if (collective && collective->job()) {
    collective->start(result.data_ptr());
    collective->wait();
  }
  return {result, token.clone()};
}

Results all_reduce_shapes(
    const at::Tensor& self, const at::Tensor& token, c10::string_view, const at::Scalar&) {
  return {at::empty_like(self, at::MemoryFormat::Contiguous), at::empty_like(token)};
}

} // namespace

bool is_recordable(const Collective& collective) {
  if (capturing || collective.outputs.size() != 1 || !collective.inputs.empty()) {
    return false;
  }
  const at::Tensor& tensor = collective.outputs[0];
  return tensor.is_privateuseone() && tensor.layout() == at::kStrided && tensor.numel() != 0 &&
         !tensor.is_quantized() && !tensor.is_complex() &&
         dtype_info(tensor.scalar_type()).in_most_ops;
}

c10::intrusive_ptr<c10d::Work> record_all_reduce(
    Collective collective, const std::string& reduction, int rank, Describe describe) {
  static auto& collectives = counter("collectives");
  static auto& recorded_collectives = counter("recorded_collectives");
  collectives.fetch_add(1);
  recorded_collectives.fetch_add(1);
  const GilRelease unlocked;
  const auto type = collective.type;
  Tensors results = collective.outputs;
  const at::Tensor tensor = results[0].detach(); // without a Python object, and its own version
  std::string called = called_text(collective);
  auto recorded = std::make_shared<RecordedCollective>(
      std::move(collective), std::move(called), std::move(describe));
  const int64_t number = add_collective(recorded);
  try {
    record(tensor, reduction, number);
  } catch (...) {
    remove_collective(number);
    throw;
  }
  launch_when_idle();
  return c10::make_intrusive<RecordedWork>(rank, type, std::move(recorded), std::move(results));
}

TORCH_LIBRARY_FRAGMENT(ftm, library) {
  library.def(
      "all_reduce(Tensor self, Tensor token, str reduction, Scalar call) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(ftm, CPU, library) {
  library.impl("all_reduce", TORCH_FN(all_reduce_on_cpu));
}

TORCH_LIBRARY_IMPL(ftm, Meta, library) {
  library.impl("all_reduce", TORCH_FN(all_reduce_shapes));
}

} // namespace ftm
