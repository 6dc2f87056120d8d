#include "distributed/collective.h"

#include "distributed/collective_tokens.h"
#include "distributed/waiters.h"
#include "execute/launcher.h"
#include "support/counters.h"
#include "support/gil.h"
#include "sync/cut_trace.h"
#include "tensor/tensor_access.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>

namespace ftm {
namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

FuturePtr make_future() {
  return c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>());
}

// "2 tensors, f32[3,4] first"
std::string tensors_text(const Collective& collective) {
  const auto& tensors = collective.inputs.empty() ? collective.outputs : collective.inputs;
  std::ostringstream text;
  for (size_t i = 0; i < std::min<size_t>(tensors.size(), 2); ++i) {
    text << (i == 0 ? " of " : ", ") << tensors[i].scalar_type() << tensors[i].sizes();
  }
  text << (tensors.size() > 2 ? ", ..." : "");
  return text.str();
}

// The state that a task shares with its `Work`.
class CollectiveTask final : public HostTask, public std::enable_shared_from_this<CollectiveTask> {
 public:
  CollectiveTask(Collective collective, std::string called, Describe describe)
      : collective_(std::move(collective)),
        called_(std::move(called)),
        describe_(std::move(describe)) {}

  Collective& collective() { return collective_; }
  // Keeps the device's tensors out of the task: it only needs their types.
  void set_on_device() {
    on_device_ = true;
    for (auto* tensors : {&collective_.inputs, &collective_.outputs}) {
      for (auto& tensor : *tensors) {
        types_.emplace_back(ValueType{tensor.scalar_type(), c10::DimVector(tensor.sizes())});
      }
    }
    input_count_ = collective_.inputs.size();
    collective_.inputs.clear();
    collective_.outputs.clear();
  }

  void begin(const JobPtr& job) override {
    on_device_ ? use_buffers(*job) : use_cpu_tensors();
    works_ = collective_.begin(inputs_, outputs_);
    run_on_waiter([self = shared_from_this(), job] {
      FailurePtr failure;
      try {
        self->wait_for_end();
      } catch (const std::exception& error) {
        failure = self->describe(error);
      }
      Tensors results = self->release();
      finish_task(job, failure);
      self->complete_future(failure, std::move(results));
    });
  }

  FailurePtr describe(const std::exception& error) const override {
    return failure_from(error, describe_(called_));
  }

  FuturePtr future; // for CPU tensors: completed at the end
  std::atomic<int> source_rank{-1};

 private:
  at::Tensor on_host(const BufferPtr& buffer, const ValueType& type, int64_t byte_offset) {
    return Buffer::as_cpu(
        buffer, type.dtype, type.sizes, c10::contiguous_strides(type.sizes),
        byte_offset / static_cast<int64_t>(c10::elementSize(type.dtype)));
  }

  void use_buffers(Job& job) {
    for (size_t i = 0; i < input_count_; ++i) {
      inputs_.push_back(on_host(job.inputs[i].buffer, types_[i], job.inputs[i].offset));
    }
    for (size_t i = 0; i < job.outputs.size(); ++i) {
      outputs_.push_back(on_host(job.outputs[i], types_[input_count_ + i], 0));
      if (collective_.updates && outputs_[i].numel() != 0) {
        const auto& old = job.inputs[input_count_ + i];
        std::memcpy(outputs_[i].data_ptr(), old.data(), outputs_[i].nbytes());
      }
    }
  }

  void use_cpu_tensors() {
    for (const auto& tensor : collective_.inputs) {
      inputs_.push_back(tensor.contiguous());
    }
    for (const auto& tensor : collective_.outputs) {
      outputs_.push_back(tensor.contiguous());
    }
  }

  void wait_for_end() {
    for (const auto& work : works_) {
      work->wait();
      if (collective_.type == c10d::OpType::RECVANYSOURCE) {
        source_rank = work->sourceRank();
      }
    }
    if (collective_.end) {
      collective_.end(inputs_, outputs_);
    }
    for (size_t i = 0; !on_device_ && i < outputs_.size(); ++i) {
      if (!outputs_[i].is_same(collective_.outputs[i]) &&
          outputs_[i].const_data_ptr() != collective_.outputs[i].const_data_ptr()) {
        collective_.outputs[i].copy_(outputs_[i]);
      }
    }
  }

  // Drops what the work needed, and returns the caller's outputs on the CPU.
  Tensors release() {
    Tensors results = std::move(collective_.outputs);
    works_.clear();
    inputs_.clear();
    outputs_.clear();
    collective_.inputs.clear();
    collective_.outputs.clear();
    collective_.begin = nullptr;
    collective_.end = nullptr;
    return results;
  }

  void complete_future(const FailurePtr& failure, Tensors results) {
    if (!future) {
      return;
    }
    if (failure) {
      future->setError(std::make_exception_ptr(std::runtime_error(failure->message)));
    } else {
      future->markCompleted(c10::IValue(std::move(results)));
    }
  }

  Collective collective_;
  const std::string called_; // name, tensors and place of the call
  const Describe describe_;
  bool on_device_ = false;
  size_t input_count_ = 0;
  std::vector<ValueType> types_; // of inputs, then of outputs
  Tensors inputs_, outputs_; // on the host, while in flight
  Works works_;
};

class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(
      int rank, c10d::OpType type, JobPtr job, std::shared_ptr<CollectiveTask> task,
      Tensors results, bool blocks)
      : Work(rank, type),
        job_(std::move(job)),
        task_(std::move(task)),
        results_(std::move(results)),
        blocks_(blocks) {}

  // As for CUDA, also if the outputs can be used without further synchronization.
  bool isCompleted() override { return has_waited_ || has_ended(*job_); }
  bool isSuccess() const override { return has_ended(*job_) && !job_->failure; }
  std::exception_ptr exception() const override {
    if (!has_ended(*job_) || !job_->failure) {
      return nullptr;
    }
    return std::make_exception_ptr(std::runtime_error(job_->failure->message));
  }
  int sourceRank() const override {
    wait_for_job(job_, std::chrono::milliseconds(0));
    return task_->source_rank;
  }
  std::vector<at::Tensor> result() override { return results_; }
  void synchronize() override { wait(kNoTimeout); }

  bool wait(std::chrono::milliseconds timeout) override {
    if (blocks_ || timeout != kNoTimeout) {
      const bool ended = wait_for_job(job_, timeout);
      TORCH_CHECK(
          ended, c10d::opTypeToString(opType_), " has not ended within ", timeout.count(), " ms");
    }
    if (has_ended(*job_) && job_->failure) {
      throw_failure(*job_->failure);
    }
    has_waited_ = true;
    return true;
  }

  FuturePtr getFuture() override {
    if (task_->future) {
      return task_->future;
    }
    // Operations on the outputs are ordered behind the collective, so the tensors can be used now.
    auto future = make_future();
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  JobPtr job_;
  std::shared_ptr<CollectiveTask> task_;
  Tensors results_; // as the caller passed them
  const bool blocks_;
  std::atomic<bool> has_waited_{false};
};

// Whether a tensor's elements are consecutive bytes of its variable.
bool is_range(const at::TensorImpl& tensor) {
  return tensor.numel() == 0 || (tensor.is_contiguous() && region_of(tensor).is_whole);
}

// Returns tensors with the elements of `tensors` that are consecutive in memory: the same ones, or
// copies, which are recorded.
Tensors as_ranges(const Tensors& tensors) {
  std::vector<const at::TensorImpl*> impls;
  for (const auto& tensor : tensors) {
    impls.push_back(tensor.unsafeGetTensorImpl());
  }
  Tensors ranges = tensors;
  auto& own = pending_trace();
  const RecorderLock lock = lock_to_read(impls, own);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_range(*impls[i])) {
      const ValueType type{tensors[i].scalar_type(), c10::DimVector(tensors[i].sizes())};
      ranges[i] = make_tensor(
          type, c10::contiguous_strides(type.sizes), /*contiguous=*/true, read(*impls[i]), own);
    } else if (tensors[i].numel() != 0) {
      whole_value(region_of(*impls[i]).variable, tensors[i].scalar_type()); // zeros if unwritten
    }
  }
  return ranges;
}

// Returns the trace that computes one of these tensors, or null if all are computed or enqueued.
// Called under the recorder's lock.
PendingTrace* trace_of(const Tensors& tensors) {
  for (const auto& tensor : tensors) {
    if (tensor.numel() != 0) {
      if (auto* trace = variable_of(*tensor.unsafeGetTensorImpl()).trace()) {
        return trace;
      }
    }
  }
  return nullptr;
}

// Returns the buffer of a range that is computed or enqueued. Called under the recorder's lock.
Input input_of(const at::Tensor& range) {
  if (range.numel() == 0) {
    return {Buffer::from_cpu(at::empty({0}))};
  }
  const Region region = region_of(*range.unsafeGetTensorImpl());
  const auto& node = trace_node(region.variable.value());
  TORCH_CHECK_NOT_IMPLEMENTED(node.is_data, "a collective cannot be part of a captured graph");
  return {
      static_cast<const DataNode&>(node).buffer(),
      region.offset * static_cast<int64_t>(range.itemsize())};
}

// Launches what computes the inputs, and enqueues the job with the tensors' buffers.
void enqueue_on_device(const JobPtr& job, CollectiveTask& task) {
  auto& collective = task.collective();
  const Tensors outputs = collective.outputs;
  {
    Tensors ranges = collective.inputs;
    if (collective.updates) {
      ranges.insert(ranges.end(), outputs.begin(), outputs.end());
    }
    ranges = as_ranges(ranges);
    std::vector<const at::TensorImpl*> written;
    for (const auto& tensor : outputs) {
      written.push_back(tensor.unsafeGetTensorImpl());
      job->outputs.push_back(std::make_shared<Buffer>(tensor.scalar_type(), tensor.sizes()));
      job->outputs.back()->set_device_index(tensor.device().index());
    }
    task.set_on_device();
    auto& own = pending_trace();
    std::vector<Value> old; // freed after the unlock
    RecorderLock lock = lock_to_read(written, own);
    while (auto* trace = trace_of(ranges)) {
      lock.unlock();
      launch(*trace, CutReason::ended);
      lock = lock_to_read(written, own);
    }
    for (const auto& range : ranges) {
      job->inputs.push_back(input_of(range));
    }
    enqueue(job);
    for (size_t i = 0; i < written.size(); ++i) {
      if (outputs[i].numel() != 0) {
        old.push_back(variable_of(*written[i]).value());
        write(
            *written[i],
            data_value(
                job->outputs[i], {outputs[i].scalar_type(), c10::DimVector(outputs[i].sizes())}),
            own);
      }
    }
  }
  start_task(job);
}

bool is_on_device(const Collective& collective) {
  size_t on_device = 0;
  for (const auto* tensors : {&collective.inputs, &collective.outputs}) {
    for (const auto& tensor : *tensors) {
      on_device += tensor.is_privateuseone();
    }
  }
  const size_t all = collective.inputs.size() + collective.outputs.size();
  TORCH_CHECK(
      on_device == 0 || on_device == all, collective.name,
      ": some tensors are on the CPU and some on the device; all must be on one");
  return on_device != 0;
}

} // namespace

std::string called_text(const Collective& collective) {
  const auto line = python_line(pending_trace().owner);
  return collective.name + tensors_text(collective) + (line ? ", called at " + *line : "");
}

c10::intrusive_ptr<c10d::Work> enqueue_collective(
    Collective collective, int rank, Describe describe) {
  static auto& collectives = counter("collectives");
  collectives.fetch_add(1);
  const GilRelease unlocked;
  const bool on_device = is_on_device(collective);
  const auto type = collective.type;
  const bool blocks = collective.blocks || !on_device;
  std::string called = called_text(collective);
  Tensors results = collective.outputs;
  for (auto* tensors : {&collective.inputs, &collective.outputs}) {
    for (auto& tensor : *tensors) {
      tensor = tensor.detach(); // it has no Python object, so no thread needs the GIL to free it
    }
  }
  auto task = std::make_shared<CollectiveTask>(
      std::move(collective), std::move(called), std::move(describe));
  auto job = std::make_shared<Job>();
  job->task = task;
  launch_recorded_collectives();
  if (on_device) {
    enqueue_on_device(job, *task);
  } else {
    task->future = make_future();
    enqueue(job);
    start_task(job);
  }
  return c10::make_intrusive<CollectiveWork>(
      rank, type, std::move(job), std::move(task), std::move(results), blocks);
}

} // namespace ftm
