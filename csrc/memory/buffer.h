// A value in device memory. It is immutable once computed and shared by reference counting. A
// program that holds the last reference may reuse its memory for a result (donation).
#pragma once

#include "memory/buffer_error.h"
#include "memory/memory_pool.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/lazy/backend/backend_data.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace ftm {

struct HostExpression;

// Returns the only device, as torch::lazy represents it.
const torch::lazy::BackendDevice& lazy_device();

class Buffer final : public torch::lazy::BackendData {
 public:
  // pending: no program has computed the value yet. failed: its program failed; see `failure`.
  enum class State : uint8_t { pending, ready, failed };

  // Makes a pending buffer without memory, on the current device; the program that computes it
  // allocates.
  Buffer(at::ScalarType dtype, c10::IntArrayRef sizes);
  ~Buffer() override;

  // Makes a ready buffer with a copy of a CPU tensor's elements in row-major order; -1 is the
  // current device.
  static std::shared_ptr<Buffer> from_cpu(
      const at::Tensor& tensor, c10::DeviceIndex device_index = -1);
  // Whether `from_cpu` made it. Its elements are then available to the recorder without waiting.
  bool is_from_cpu() const { return from_cpu_; }

  // Bit mask of the dimensions whose sizes may differ in the next run of the program: those that
  // are symbols in the program that computed the buffer. For integers from the CPU (token ids,
  // labels, indices), all dimensions.
  uint64_t varying_dims() const { return varying_dims_.load(std::memory_order_relaxed); }
  void set_varying_dims(uint64_t dimensions) {
    varying_dims_.store(dimensions, std::memory_order_relaxed);
  }

  // The graph traversal that visited the buffer last, and the number of the first parameter that
  // reads it there (graph/ordered_graph.cpp). Guarded by the recorder's lock.
  struct FirstParameter {
    uint32_t walk = 0;
    int32_t number = -1;
  };
  mutable FirstParameter first_parameter;

  // Least and greatest element of a non-empty ready buffer of int32 or int64. Computed once.
  struct IndexRange { int64_t low = 0, high = 0; };
  IndexRange index_range() const;

  // How the CPU can compute the elements of a program's result (execute/integers_on_cpu.h); may
  // be null. Set before other threads have the buffer.
  const std::shared_ptr<HostExpression>& host_expression() const { return host_expression_; }
  void set_host_expression(std::shared_ptr<HostExpression> expression) {
    host_expression_ = std::move(expression);
  }

  // The device from whose pool its memory is. Set it before the buffer has memory.
  c10::DeviceIndex device_index() const { return device_index_; }
  void set_device_index(c10::DeviceIndex device) { device_index_ = device; }

  size_t nbytes() const { return nbytes_; }
  void* data() const { return block_.data; }
  State state() const { return state_.load(std::memory_order_acquire); }

  // For the launcher: gets a block from the pool. Throws c10::OutOfMemoryError.
  void allocate();
  // Takes over the block of a buffer that is no longer used; returns false if that is too small.
  bool adopt(Buffer& donor);
  // Publish the value, or the error, to other threads.
  void set_ready();
  void set_failed(FailurePtr failure);
  const FailurePtr& failure() const { return failure_; }

  // Returns the elements as a CPU tensor that shares this memory and keeps it alive. Treat it as
  // read-only. The buffer must be ready. If `dtype` differs from the buffer's, the bytes are
  // reinterpreted. `offset` is in elements of `dtype`.
  static at::Tensor as_cpu(
      const std::shared_ptr<Buffer>& buffer, at::ScalarType dtype, c10::IntArrayRef sizes,
      c10::IntArrayRef strides, int64_t offset);

  Handle GetHandle() override;
  void Assign(const torch::lazy::BackendData& other) override;
  bool HasValue() const override;

 private:
  size_t nbytes_;
  Block block_;
  std::atomic<State> state_{State::pending};
  FailurePtr failure_;
  bool from_cpu_ = false;
  c10::DeviceIndex device_index_;
  std::atomic<uint64_t> varying_dims_{0};
  mutable std::once_flag index_range_found_;
  mutable IndexRange index_range_;
  std::shared_ptr<HostExpression> host_expression_;
};

using BufferPtr = std::shared_ptr<Buffer>;

// A program's input: a buffer and the byte offset at which the value begins.
struct Input {
  Input(BufferPtr buffer, int64_t offset = 0) : buffer(std::move(buffer)), offset(offset) {}

  void* data() const { return static_cast<char*>(buffer->data()) + offset; }

  BufferPtr buffer;
  int64_t offset;
};

} // namespace ftm
