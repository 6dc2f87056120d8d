#include "distributed/recorded_collective.h"

#include "distributed/collective_tokens.h"
#include "distributed/waiters.h"
#include "execute/collective_registry.h"
#include "execute/launcher.h"
#include "reference/executor.h"
#include "support/capture_mode.h"
#include "support/counters.h"
#include "support/gil.h"
#include "sync/cut_trace.h"
#include "sync/optimizer_step.h"
#include "tensor/tensor_access.h"
#include "tensor/view_access.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

namespace ftm {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor>;
using RecordedOp = Results(
    const at::Tensor&, const at::Tensor&, c10::string_view, c10::string_view, at::IntArrayRef,
    const at::Scalar&);
using Sizes = std::vector<c10::DimVector>;

Sizes sizes_of(const Tensors& tensors) {
  Sizes sizes;
  for (const auto& tensor : tensors) {
    sizes.emplace_back(tensor.sizes());
  }
  return sizes;
}

int64_t total_elements(const Tensors& tensors) {
  return std::accumulate(
      tensors.begin(), tensors.end(), int64_t{0},
      [](int64_t sum, const at::Tensor& tensor) { return sum + tensor.numel(); });
}

// What this process contributes: the inputs, or the outputs' old elements.
const Tensors& contribution(const Collective& collective) {
  return collective.updates ? collective.outputs : collective.inputs;
}

// Returns views with these sizes of consecutive elements.
Tensors split(const at::Tensor& elements, const Sizes& sizes) {
  const at::Tensor flat = elements.view({-1});
  Tensors parts;
  int64_t begin = 0;
  for (const auto& size : sizes) {
    const auto count = c10::multiply_integers(size);
    parts.push_back(flat.narrow(0, begin, count).view(size));
    begin += count;
  }
  return parts;
}

class RecordedCollective final : public HostCollective,
                                 public std::enable_shared_from_this<RecordedCollective> {
 public:
  RecordedCollective(Collective collective, std::string called, Describe describe)
      : collective_(std::move(collective)),
        dtype_(contribution(collective_)[0].scalar_type()),
        source_sizes_(sizes_of(contribution(collective_))),
        result_sizes_(sizes_of(collective_.outputs)),
        source_elements_(total_elements(contribution(collective_))),
        result_elements_(total_elements(collective_.outputs)),
        called_(std::move(called)),
        describe_(std::move(describe)) {
    collective_.inputs.clear(); // the program has their memory
    collective_.outputs.clear();
  }

  void set_job(const JobPtr& job) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    job_ = job;
  }

  void start(const void* source, void* result) override {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      TORCH_CHECK(!has_started_, called_, " has run already");
      has_started_ = true;
      result_ = result_elements_ == 0 ? nullptr : result;
    }
    const auto options = at::TensorOptions().dtype(dtype_);
    outputs_ = split(at::from_blob(result, {result_elements_}, options), result_sizes_);
    if (collective_.updates) {
      std::memcpy(result, source, source_elements_ * c10::elementSize(dtype_));
    } else {
      const at::Tensor copied = at::empty({source_elements_}, options);
      std::memcpy(copied.data_ptr(), source, copied.nbytes());
      inputs_ = split(copied, source_sizes_);
    }
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

  bool is_in_flight() const override {
    const std::lock_guard<std::mutex> guard(mutex_);
    return has_started_ && !is_complete_;
  }

  const void* result() const override {
    const std::lock_guard<std::mutex> guard(mutex_);
    return result_;
  }

  void when_complete(std::function<void()> call) override {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (!is_complete_) {
        calls_.push_back(std::move(call));
        return;
      }
    }
    call();
  }

  bool is_complete() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return is_complete_;
  }

  // Keeps the memory of the result until it is complete. Call it before `start`.
  void keep(at::Tensor result) { kept_ = std::move(result); }

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
    kept_.reset();
    works_.clear();
    inputs_.clear();
    outputs_.clear();
    collective_ = {};
    std::vector<std::function<void()>> calls;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      failure_ = std::move(failure);
      is_complete_ = true;
      calls.swap(calls_);
      changed_.notify_all();
    }
    for (const auto& call : calls) {
      call();
    }
  }

  // Used by one thread at a time: the one that starts, then the one that waits for the works.
  Collective collective_;
  Tensors inputs_, outputs_; // on the host, while in flight
  at::Tensor kept_;
  Works works_;

  const at::ScalarType dtype_;
  const Sizes source_sizes_, result_sizes_;
  const int64_t source_elements_, result_elements_;
  const std::string called_; // name, tensor and place of the call
  const Describe describe_;

  mutable std::mutex mutex_; // acquired alone; guards the members below
  std::condition_variable changed_;
  bool has_started_ = false;
  void* result_ = nullptr; // of one that has started and has a result
  bool is_complete_ = false; // or will never run
  std::vector<std::function<void()>> calls_; // when it is complete
  FailurePtr failure_;
  JobPtr job_;
};

class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(
      int rank, c10d::OpType type, std::shared_ptr<RecordedCollective> collective, Tensors results)
      : Work(rank, type), collective_(std::move(collective)), results_(std::move(results)) {}

  // As for CUDA, also if the outputs can be used without further synchronization.
  bool isCompleted() override {
    if (!has_waited_ && !collective_->is_complete()) {
      launch_recorded_collectives();
    }
    return has_waited_ || collective_->is_complete();
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
    has_waited_ = true;
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
  std::atomic<bool> has_waited_{false};
};

// Returns one tensor with the elements of all.
at::Tensor concatenation(const Tensors& tensors) {
  if (tensors.size() == 1) {
    return tensors[0];
  }
  Tensors flat;
  for (const auto& tensor : tensors) {
    flat.push_back(tensor.reshape({-1}));
  }
  return at::cat(flat);
}

// Acquires the mutex that orders recorded collectives: one thread at a time takes the last token
// and makes the next one. Before that, it launches whatever recording would launch, so that the
// thread need not wait while it has the mutex: a signal handler may run in such a wait, and issue a
// collective itself. `tensors` are those of the call.
std::unique_lock<std::mutex> lock_order(
    c10::ArrayRef<const at::TensorImpl*> tensors, c10::DeviceIndex device) {
  static std::mutex order; // acquired before the recorder's lock, and never with the GIL
  check_not_forked();
  while (true) {
    launch_recorded_collectives(/*except=*/device);
    auto& own = pending_trace();
    cut_if_long(own);
    if (own.step.ended.load(std::memory_order_relaxed)) {
      launch_deferred_step(tensors);
    }
    static_cast<void>(lock_to_read(tensors, own)); // launches what is pending on other threads
    std::unique_lock<std::mutex> guard(order);
    const RecorderLock lock(recorder_mutex());
    const auto is_elsewhere = [&](const at::TensorImpl* tensor) {
      const auto* trace = tensor->numel() == 0 ? nullptr : variable_of(*tensor).trace();
      return trace != nullptr && trace != &own;
    };
    if (!has_recorded_collectives(/*except=*/device) &&
        std::none_of(tensors.begin(), tensors.end(), is_elsewhere)) {
      return guard;
    }
  }
}

// Records the call, and makes its results the values of the outputs and of the token.
void record(const Collective& collective, int64_t number) {
  const Tensors& outputs = collective.outputs;
  const auto device = contribution(collective)[0].device();
  const at::Tensor token = token_of(device);
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ftm::collective", "").typed<RecordedOp>();
  const auto size = outputs.size() == 1 ? c10::DimVector(outputs[0].sizes())
                                        : c10::DimVector{total_elements(outputs)};
  const at::Tensor source = concatenation(contribution(collective));
  std::vector<const at::TensorImpl*> tensors = {
      source.unsafeGetTensorImpl(), token.unsafeGetTensorImpl()};
  for (const auto& output : outputs) {
    tensors.push_back(output.unsafeGetTensorImpl());
  }
  const auto guard = lock_order(tensors, device.index());
  const auto [result, next] =
      op.call(source, token, collective.kind, collective.reduction, size, number);
  auto& own = pending_trace();
  const RecorderLock lock = lock_to_read(tensors, own);
  const Value elements = outputs.empty() ? Value() : read(*result.unsafeGetTensorImpl());
  int64_t begin = 0;
  for (const auto& output : outputs) {
    if (output.numel() != 0) {
      const auto strides = c10::contiguous_strides(output.sizes());
      auto part =
          outputs.size() == 1 ? elements : strided_view(elements, output.sizes(), strides, begin);
      write(*output.unsafeGetTensorImpl(), std::move(part), own);
      begin += output.numel();
    }
  }
  write(*token.unsafeGetTensorImpl(), read(*next.unsafeGetTensorImpl()), own);
}

// The op on the CPU, where programs that are not compiled run. Without a job, the call is a trial
// of eager's checks, which have the op's arguments before it is recorded.
Results collective_on_cpu(
    const at::Tensor& self, const at::Tensor& token, c10::string_view, c10::string_view,
    at::IntArrayRef size, const at::Scalar& call) {
  const at::Tensor source = self.contiguous();
  at::Tensor result = at::zeros(size, self.options());
  const auto collective =
      call.toLong() == 0
          ? nullptr
          : std::static_pointer_cast<RecordedCollective>(find_collective(call.toLong()));
  if (collective && collective->job()) {
    collective->keep(result);
    collective->start(source.const_data_ptr(), result.data_ptr());
    if (result.numel() != 0) {
      complete_before_read(result, [collective] { collective->wait(); });
    }
  } else if (source.numel() == result.numel()) {
    result.copy_(source.view(size));
  }
  return {result, token.clone()};
}

Results collective_shapes(
    const at::Tensor& self, const at::Tensor& token, c10::string_view, c10::string_view,
    at::IntArrayRef size, const at::Scalar&) {
  return {at::empty(size, self.options()), at::empty_like(token)};
}

} // namespace

bool is_recordable(const Collective& collective) {
  if (capturing || collective.kind.empty() || total_elements(contribution(collective)) == 0 ||
      (total_elements(collective.outputs) == 0 && !collective.outputs.empty())) {
    return false;
  }
  const at::Tensor& first = contribution(collective)[0];
  const auto is_alike = [&](const at::Tensor& tensor) {
    return tensor.device() == first.device() && tensor.scalar_type() == first.scalar_type() &&
           tensor.layout() == at::kStrided && !tensor.is_quantized();
  };
  return first.is_privateuseone() && !first.is_complex() && first.scalar_type() != at::kByte &&
         dtype_info(first.scalar_type()).in_most_ops &&
         std::all_of(collective.inputs.begin(), collective.inputs.end(), is_alike) &&
         std::all_of(collective.outputs.begin(), collective.outputs.end(), is_alike);
}

c10::intrusive_ptr<c10d::Work> record_collective(
    Collective collective, int rank, Describe describe) {
  static auto& collectives = counter("collectives");
  static auto& recorded_collectives = counter("recorded_collectives");
  collectives.fetch_add(1);
  recorded_collectives.fetch_add(1);
  const GilRelease unlocked;
  const auto type = collective.type;
  Tensors results = collective.outputs;
  for (auto* tensors : {&collective.inputs, &collective.outputs}) {
    for (auto& tensor : *tensors) {
      tensor = tensor.detach(); // without a Python object, and its own version
    }
  }
  auto recorded = std::make_shared<RecordedCollective>(
      collective, called_text(collective), std::move(describe));
  const int64_t number = add_collective(recorded);
  try {
    record(collective, number);
  } catch (...) {
    remove_collective(number);
    throw;
  }
  launch_when_idle();
  return c10::make_intrusive<RecordedWork>(rank, type, std::move(recorded), std::move(results));
}

TORCH_LIBRARY_FRAGMENT(ftm, library) {
  library.def(
      "collective(Tensor self, Tensor token, str kind, str reduction, int[] size, Scalar call) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(ftm, CPU, library) {
  library.impl("collective", TORCH_FN(collective_on_cpu));
}

TORCH_LIBRARY_IMPL(ftm, Meta, library) {
  library.impl("collective", TORCH_FN(collective_shapes));
}

} // namespace ftm
