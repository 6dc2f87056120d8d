// The collectives of the backend `ftm` that reduce, each in terms of the carrier's.
#include "distributed/backend.h"
#include "distributed/host_tensors.h"
#include "distributed/reductions.h"
#include "support/gil.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace ftm {

namespace {

Works begin_allreduce(
    c10d::Backend& carrier, const Reduction& reduction, Tensors& tensors, at::Tensor& gathered,
    int size, std::chrono::milliseconds timeout) {
  Works works;
  for (auto& tensor : tensors) {
    reduction.prepare(tensor);
  }
  if (!reduction.is_carried()) {
    const int64_t bytes = total_bytes(tensors);
    gathered = at::empty({size * bytes}, at::kByte);
    works.push_back(gather_all(carrier, gathered, concatenate_bytes(tensors), timeout));
    return works;
  }
  c10d::AllreduceOptions options;
  options.reduceOp = reduction.carried();
  options.timeout = timeout;
  for (const auto& tensor : tensors) {
    Tensors one{tensor};
    works.push_back(carrier.allreduce(one, options));
  }
  return works;
}

void end_allreduce(
    const Reduction& reduction, Tensors& tensors, const at::Tensor& gathered, int size) {
  if (reduction.is_carried()) {
    for (auto& tensor : tensors) {
      reduction.complete(tensor);
    }
    return;
  }
  const at::Tensor parts = gathered.view({size, -1});
  int64_t begin = 0;
  for (auto& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    reduction.reduce(parts.narrow(1, begin, bytes).contiguous().view(tensor.scalar_type()), tensor);
    begin += bytes;
  }
}

// Lets a collective be recorded, unless the machine does not have the reduction.
void set_kind(Collective& collective, const char* kind, const Reduction& reduction) {
  collective.reduction = reduction.attribute();
  collective.kind = collective.reduction.empty() ? "" : kind;
}

} // namespace

WorkPtr GroupBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check_nonempty("all_reduce", tensors);
  if (tensors[0].is_sparse()) {
    return allreduce_sparse(tensors, options);
  }
  check_one_dtype("all_reduce", tensors);
  const Reduction reduction(options.reduceOp, tensors[0].scalar_type(), size_);
  Collective collective{"all_reduce", c10d::OpType::ALLREDUCE, {}, tensors};
  collective.updates = true;
  set_kind(collective, "allreduce", reduction);
  auto gathered = std::make_shared<at::Tensor>();
  collective.begin = [carrier = carrier_.get(), reduction, gathered, size = size_,
                      timeout = options.timeout](Tensors&, Tensors& outputs) {
    return begin_allreduce(*carrier, reduction, outputs, *gathered, size, timeout);
  };
  collective.end = [reduction, gathered, size = size_](Tensors&, Tensors& outputs) {
    end_allreduce(reduction, outputs, *gathered, size);
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return allreduce(tensors, options);
}

WorkPtr GroupBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_nonempty("reduce", tensors);
  check_rank("reduce", "destination", options.rootRank, size_);
  check_one_dtype("reduce", tensors);
  const Reduction reduction(options.reduceOp, tensors[0].scalar_type(), size_);
  const bool is_root = options.rootRank == rank_;
  Collective collective{"reduce", c10d::OpType::REDUCE, {}, tensors};
  collective.updates = true; // on all ranks, so that they record the same program
  set_kind(collective, "reduce", reduction);
  auto gathered = std::make_shared<at::Tensor>();
  // The carrier overwrites the elements of all ranks, so others than the root give it a copy.
  collective.begin = [carrier = carrier_.get(), reduction, gathered, size = size_, is_root,
                      options](Tensors&, Tensors& outputs) {
    Tensors work_tensors;
    for (const auto& tensor : outputs) {
      work_tensors.push_back(is_root ? tensor : tensor.clone());
    }
    if (!reduction.is_carried()) {
      return begin_allreduce(*carrier, reduction, work_tensors, *gathered, size, options.timeout);
    }
    auto carried = options;
    carried.reduceOp = reduction.carried();
    Works works;
    for (auto& tensor : work_tensors) {
      reduction.prepare(tensor);
      Tensors one{tensor};
      works.push_back(carrier->reduce(one, carried));
    }
    return works;
  };
  collective.end = [reduction, gathered, size = size_, is_root](Tensors&, Tensors& outputs) {
    if (is_root) {
      end_allreduce(reduction, outputs, *gathered, size);
    }
  };
  return enqueue(std::move(collective));
}

// Exchanges the parts, and reduces those of this rank here: gloo's reduce-scatter moves twice as
// much. `inputs` has one part for each rank and output, those of one output in a row. Parts of
// different ranks may differ in size.
WorkPtr GroupBackend::reduce_parts(
    std::string name, c10d::OpType type, Tensors outputs, Tensors inputs,
    const c10d::ReduceScatterOptions& options) {
  check_nonempty(name.c_str(), outputs);
  Tensors all = outputs;
  all.insert(all.end(), inputs.begin(), inputs.end());
  check_one_dtype(name.c_str(), all);
  const Reduction reduction(options.reduceOp, outputs[0].scalar_type(), size_);
  const size_t parts = inputs.size() / outputs.size(); // `size_`, or 1 that has all
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& output = outputs[i / parts];
    const bool is_own = parts == 1 || i % parts == static_cast<size_t>(rank_);
    TORCH_CHECK_VALUE(
        !is_own || inputs[i].numel() == (parts == 1 ? size_ : 1) * output.numel(), name,
        ": an input has ", inputs[i].sizes(), ", its output has ", output.sizes(),
        ", and there are ", size_, " ranks");
  }
  Collective collective{std::move(name), type, std::move(inputs), std::move(outputs)};
  set_kind(collective, "reducescatter", reduction);
  auto received = std::make_shared<Tensors>();
  collective.begin = [carrier = carrier_.get(), reduction, received, parts, size = size_,
                      timeout = options.timeout](Tensors& sent, Tensors& results) {
    Works works;
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensors own(sent.begin() + i * parts, sent.begin() + (i + 1) * parts);
      at::Tensor bytes = concatenate_bytes(own);
      if (reduction.scales()) {
        bytes = bytes.clone(); // `prepare` writes
      }
      at::Tensor elements = bytes.view(results[i].scalar_type());
      reduction.prepare(elements);
      const auto own_bytes = static_cast<int64_t>(results[i].nbytes());
      const std::vector<int64_t> received_sizes(size, own_bytes);
      std::vector<int64_t> sent_sizes = received_sizes;
      for (size_t part = 0; parts != 1 && part < parts; ++part) {
        sent_sizes[part] = static_cast<int64_t>(own[part].nbytes());
      }
      received->push_back(at::empty({size * own_bytes}, at::kByte));
      works.push_back(
          exchange(*carrier, received->back(), bytes, received_sizes, sent_sizes, timeout));
    }
    return works;
  };
  collective.end = [reduction, received, size = size_](Tensors&, Tensors& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].numel() != 0) {
        reduction.reduce(
            (*received)[i].view(results[i].scalar_type()).view({size, -1}), results[i]);
      }
    }
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size(), "reduce_scatter: ", outputs.size(), " outputs, but ",
      inputs.size(), " lists of inputs");
  for (const auto& list : inputs) {
    TORCH_CHECK_VALUE(
        list.size() == static_cast<size_t>(size_), "reduce_scatter: a list has ", list.size(),
        " inputs, but the group has ", size_, " ranks");
  }
  return reduce_parts(
      "reduce_scatter", c10d::OpType::REDUCE_SCATTER, outputs, flatten(inputs), options);
}

WorkPtr GroupBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return reduce_parts(
      "reduce_scatter_tensor", c10d::OpType::_REDUCE_SCATTER_BASE, {output}, {input}, options);
}

WorkPtr GroupBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return reduce_parts(
      "reduce_scatter_tensor_coalesced", c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, outputs,
      inputs, options);
}

WorkPtr GroupBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  // The number of indices differs by rank, and the result's is known at the end only.
  const GilRelease unlocked;
  TORCH_CHECK_VALUE(tensors.size() == 1, "all_reduce: requires a single sparse tensor");
  TORCH_CHECK_VALUE(
      options.reduceOp.op_ == c10d::ReduceOp::SUM, "all_reduce: sparse tensors can only be summed");
  at::Tensor host = tensors[0].cpu().coalesce();
  Tensors one{host};
  Collective collective{"all_reduce", c10d::OpType::_ALLREDUCE_SPARSE};
  collective.blocks = true;
  collective.begin = [carrier = carrier_.get(), one, options](Tensors&, Tensors&) mutable {
    return Works{carrier->allreduce(one, options)};
  };
  auto work = enqueue(std::move(collective));
  work->wait();
  tensors[0].copy_(one[0]);
  return work;
}

namespace {

// Sparse tensors take the way of dense ones, to the group's backend, instead of the CPU fallback.
void call_backend(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::PrivateUse1, *stack);
}

} // namespace

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, library) {
  library.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&call_backend>());
}

} // namespace ftm
