#include "distributed/host_tensors.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>

#include <numeric>

namespace ftm {

at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(
      tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())}, [tensor](void*) {}, at::kByte);
}

Tensors bytes_of(const Tensors& tensors) {
  Tensors bytes;
  for (const auto& tensor : tensors) {
    bytes.push_back(bytes_of(tensor));
  }
  return bytes;
}

Tensors flatten(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const auto& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

int64_t total_bytes(const Tensors& tensors) {
  return std::accumulate(
      tensors.begin(), tensors.end(), int64_t{0},
      [](int64_t sum, const at::Tensor& tensor) { return sum + tensor.nbytes(); });
}

at::Tensor concatenate_bytes(const Tensors& tensors) {
  return tensors.size() == 1 ? bytes_of(tensors[0]) : at::cat(bytes_of(tensors));
}

void split_bytes(const at::Tensor& bytes, const Tensors& tensors) {
  int64_t begin = 0;
  for (const auto& tensor : tensors) {
    const auto size = static_cast<int64_t>(tensor.nbytes());
    bytes_of(tensor).copy_(bytes.narrow(0, begin, size));
    begin += size;
  }
}

void check_one_dtype(const char* name, const Tensors& tensors) {
  for (const auto& tensor : tensors) {
    TORCH_CHECK_VALUE(
        tensor.scalar_type() == tensors[0].scalar_type(), name,
        ": all tensors must have the same type, found ", tensors[0].scalar_type(), " and ",
        tensor.scalar_type());
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, name, ": tensors must be dense");
  }
}

void check_nonempty(const char* name, const Tensors& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), name, ": requires at least one tensor");
}

void check_rank(const char* name, const char* role, int64_t rank, int size) {
  TORCH_CHECK_VALUE(
      rank >= 0 && rank < size, name, ": invalid ", role, " rank ", rank, " in a group of ", size);
}

c10::intrusive_ptr<c10d::Work> exchange(
    c10d::Backend& carrier, at::Tensor received, at::Tensor sent,
    std::vector<int64_t> received_sizes, std::vector<int64_t> sent_sizes,
    std::chrono::milliseconds timeout) {
  c10d::AllToAllOptions options;
  options.timeout = timeout;
  return carrier.alltoall_base(received, sent, received_sizes, sent_sizes, options);
}

c10::intrusive_ptr<c10d::Work> gather_all(
    c10d::Backend& carrier, at::Tensor received, at::Tensor sent,
    std::chrono::milliseconds timeout) {
  c10d::AllgatherOptions options;
  options.timeout = timeout;
  return carrier._allgather_base(received, sent, options);
}

} // namespace ftm
