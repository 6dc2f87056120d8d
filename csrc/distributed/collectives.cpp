// The collectives of the backend `ftm` that move elements, each in terms of the carrier's.
#include "distributed/backend.h"
#include "distributed/host_tensors.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <numeric>

namespace ftm {

WorkPtr GroupBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_nonempty("broadcast", tensors);
  check_rank("broadcast", "source", options.rootRank, size_);
  Collective collective{"broadcast", c10d::OpType::BROADCAST, {}, tensors};
  collective.updates = true; // on all ranks, so that they record the same program
  collective.kind = "broadcast";
  collective.begin = [carrier = carrier_.get(), options](Tensors&, Tensors& outputs) {
    Works works;
    for (const auto& output : outputs) {
      Tensors bytes{bytes_of(output)};
      works.push_back(carrier->broadcast(bytes, options));
    }
    return works;
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_nonempty("all_gather", inputs);
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size(), "all_gather: ", inputs.size(), " inputs, but ",
      outputs.size(), " lists of outputs");
  bool is_even = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(
        outputs[i].size() == static_cast<size_t>(size_), "all_gather: a list of outputs has ",
        outputs[i].size(), " tensors, but the group has ", size_, " ranks");
    TORCH_CHECK_VALUE(
        outputs[i][rank_].numel() == inputs[i].numel(), "all_gather: this rank's output has ",
        outputs[i][rank_].sizes(), ", its input has ", inputs[i].sizes());
    check_one_dtype("all_gather", outputs[i]);
    for (const auto& output : outputs[i]) {
      is_even = is_even && output.numel() == inputs[i].numel();
    }
  }
  Collective collective{"all_gather", c10d::OpType::ALLGATHER, inputs, flatten(outputs)};
  collective.kind = "allgather";
  collective.begin = [carrier = carrier_.get(), rank = rank_, size = size_, is_even, options](
                         Tensors& sent, Tensors& received) {
    Works works;
    for (size_t i = 0; i < sent.size(); ++i) {
      Tensors parts(received.begin() + i * size, received.begin() + (i + 1) * size);
      parts = bytes_of(parts);
      if (is_even) {
        std::vector<Tensors> lists{parts};
        Tensors one{bytes_of(sent[i])};
        works.push_back(carrier->allgather(lists, one, options));
        continue;
      }
      parts[rank].copy_(bytes_of(sent[i]));
      for (int root = 0; root < size; ++root) {
        c10d::BroadcastOptions one;
        one.rootRank = root;
        one.timeout = options.timeout;
        Tensors part{parts[root]};
        works.push_back(carrier->broadcast(part, one));
      }
    }
    return works;
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  // One list for each rank; `allgather` takes one for each input.
  std::vector<Tensors> by_input(inputs.size());
  for (const auto& of_rank : outputs) {
    TORCH_CHECK_VALUE(
        of_rank.size() == inputs.size(), "all_gather_coalesced: ", inputs.size(), " inputs, but ",
        of_rank.size(), " outputs of a rank");
    for (size_t i = 0; i < inputs.size(); ++i) {
      by_input[i].push_back(of_rank[i]);
    }
  }
  return allgather(by_input, inputs, options);
}

WorkPtr GroupBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr GroupBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_nonempty("all_gather_into_tensor", inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(
        outputs[i].scalar_type() == inputs[i].scalar_type(),
        "all_gather_into_tensor: output tensor must have the same type as input tensor");
    TORCH_CHECK_VALUE(
        outputs[i].numel() == inputs[i].numel() * size_,
        "all_gather_into_tensor: output tensor size must be equal to world_size times input tensor "
        "size");
  }
  Collective collective{"all_gather_into_tensor", c10d::OpType::_ALLGATHER_BASE, inputs, outputs};
  collective.kind = "allgather";
  collective.begin = [carrier = carrier_.get(), options](Tensors& sent, Tensors& received) {
    Works works;
    for (size_t i = 0; i < sent.size(); ++i) {
      works.push_back(
          gather_all(*carrier, bytes_of(received[i]), bytes_of(sent[i]), options.timeout));
    }
    return works;
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::gather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == 1, "gather: requires a single input tensor");
  check_rank("gather", "destination", options.rootRank, size_);
  const bool is_root = options.rootRank == rank_;
  TORCH_CHECK_VALUE(
      !is_root || (outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_)),
      "gather: the destination needs one output for each of the ", size_, " ranks");
  Collective collective{"gather", c10d::OpType::GATHER, inputs};
  collective.kind = "gather";
  if (is_root) {
    for (const auto& output : outputs[0]) {
      TORCH_CHECK_VALUE(
          output.nbytes() == inputs[0].nbytes(), "gather: an output has ", output.sizes(),
          ", the input has ", inputs[0].sizes());
    }
    collective.outputs = outputs[0];
  }
  collective.begin = [carrier = carrier_.get(), options](Tensors& sent, Tensors& received) {
    std::vector<Tensors> lists;
    if (!received.empty()) {
      lists.push_back(bytes_of(received));
    }
    Tensors one{bytes_of(sent[0])};
    return Works{carrier->gather(lists, one, options)};
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == 1, "scatter: requires a single output tensor");
  check_rank("scatter", "source", options.rootRank, size_);
  Collective collective{"scatter", c10d::OpType::SCATTER, {}, outputs};
  collective.kind = "scatter";
  collective.updates = options.rootRank != rank_; // a recorded call has an operand
  if (!collective.updates) {
    TORCH_CHECK_VALUE(
        inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_),
        "scatter: the source needs one input for each of the ", size_, " ranks");
    for (const auto& input : inputs[0]) {
      TORCH_CHECK_VALUE(
          input.nbytes() == outputs[0].nbytes(), "scatter: an input has ", input.sizes(),
          ", the output has ", outputs[0].sizes());
    }
    collective.inputs = inputs[0];
  }
  collective.begin = [carrier = carrier_.get(), options](Tensors& sent, Tensors& received) {
    std::vector<Tensors> lists;
    if (!sent.empty()) {
      lists.push_back(bytes_of(sent));
    }
    Tensors one{bytes_of(received[0])};
    return Works{carrier->scatter(one, lists, options)};
  };
  return enqueue(std::move(collective));
}

namespace {

// Returns the parts' sizes in bytes. Without `sizes`, which count rows, the parts are equal.
std::vector<int64_t> part_bytes(
    const char* role, const at::Tensor& tensor, const std::vector<int64_t>& sizes, int ranks) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  if (sizes.empty()) {
    TORCH_CHECK_VALUE(
        tensor.dim() != 0 && tensor.size(0) % ranks == 0, "all_to_all: the ", role,
        "'s first dimension is not divisible by the number of ranks, ", ranks);
    return std::vector<int64_t>(ranks, bytes / ranks);
  }
  TORCH_CHECK_VALUE(
      sizes.size() == static_cast<size_t>(ranks), "all_to_all: ", sizes.size(),
      " split sizes of the ", role, " for ", ranks, " ranks");
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  TORCH_CHECK_VALUE(
      rows == tensor.size(0), "all_to_all: the split sizes of the ", role, " sum up to ", rows,
      ", its first dimension is ", tensor.size(0));
  std::vector<int64_t> parts;
  parts.reserve(sizes.size());
  for (const int64_t size : sizes) {
    parts.push_back(rows == 0 ? 0 : bytes / rows * size);
  }
  return parts;
}

} // namespace

WorkPtr GroupBackend::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
    std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  check_one_dtype("all_to_all", {output, input});
  Collective collective{"all_to_all_single", c10d::OpType::ALLTOALL_BASE, {input}, {output}};
  collective.kind = "alltoall";
  collective.begin = [carrier = carrier_.get(), options,
                      received_bytes = part_bytes("output", output, output_sizes, size_),
                      sent_bytes = part_bytes("input", input, input_sizes, size_)](
                         Tensors& inputs, Tensors& outputs) {
    return Works{exchange(
        *carrier, bytes_of(outputs[0]), bytes_of(inputs[0]), received_bytes, sent_bytes,
        options.timeout)};
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  for (const auto* tensors : {&outputs, &inputs}) {
    TORCH_CHECK_VALUE(
        tensors->size() == static_cast<size_t>(size_), "all_to_all: ", tensors->size(),
        " tensors for ", size_, " ranks");
  }
  Collective collective{"all_to_all", c10d::OpType::ALLTOALL, inputs, outputs};
  collective.kind = "alltoall";
  auto received = std::make_shared<at::Tensor>();
  collective.begin = [carrier = carrier_.get(), options, received](
                         Tensors& sent, Tensors& results) {
    const auto sizes = [](const Tensors& tensors) {
      std::vector<int64_t> bytes;
      for (const auto& tensor : tensors) {
        bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
      }
      return bytes;
    };
    *received = at::empty({total_bytes(results)}, at::kByte);
    return Works{exchange(
        *carrier, *received, at::cat(bytes_of(sent)), sizes(results), sizes(sent),
        options.timeout)};
  };
  collective.end = [received](Tensors&, Tensors& results) { split_bytes(*received, results); };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::send(Tensors& tensors, int target, int tag) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "send: requires a single tensor");
  check_rank("send", "destination", target, size_);
  Collective collective{"send to rank " + std::to_string(target), c10d::OpType::SEND, tensors};
  collective.kind = "send";
  collective.is_message = true;
  collective.blocks = true;
  collective.begin = [carrier = carrier_.get(), target, tag](Tensors& sent, Tensors&) {
    Tensors one{bytes_of(sent[0])};
    return Works{carrier->send(one, target, tag)};
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::recv(Tensors& tensors, int source, int tag) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "recv: requires a single tensor");
  check_rank("recv", "source", source, size_);
  Collective collective{
      "recv from rank " + std::to_string(source), c10d::OpType::RECV, {}, tensors};
  collective.kind = "recv";
  collective.is_message = true;
  collective.updates = true; // a recorded call has an operand
  collective.begin = [carrier = carrier_.get(), source, tag](Tensors&, Tensors& received) {
    Tensors one{bytes_of(received[0])};
    return Works{carrier->recv(one, source, tag)};
  };
  return enqueue(std::move(collective));
}

WorkPtr GroupBackend::recvAnysource(Tensors& tensors, int tag) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "recv: requires a single tensor");
  // Not recorded: its caller waits for it, to learn the source.
  Collective collective{"recv from any rank", c10d::OpType::RECVANYSOURCE, {}, tensors};
  collective.is_message = true;
  collective.begin = [carrier = carrier_.get(), tag](Tensors&, Tensors& received) {
    Tensors one{bytes_of(received[0])};
    return Works{carrier->recvAnysource(one, tag)};
  };
  return enqueue(std::move(collective));
}

} // namespace ftm
