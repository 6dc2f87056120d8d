// A value in device memory: immutable once computed, shared by whoever holds it, and donated to a
// program's result when the program is its last holder.
#pragma once

#include "memory/poison.h"
#include "memory/memory_pool.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/lazy/backend/backend_data.h>

#include <atomic>
#include <memory>
#include <string>

namespace ftm {

// The only device, as torch::lazy knows it.
const torch::lazy::BackendDevice& lazy_device();

class Buffer final : public torch::lazy::BackendData {
 public:
  enum class State : uint8_t { pending, ready, failed };

  // Has no memory yet: a program will bring it.
  Buffer(at::ScalarType dtype, c10::IntArrayRef sizes);
  ~Buffer() override;

  // Holds a copy of a CPU tensor's elements in row-major order.
  static std::shared_ptr<Buffer> from_cpu(const at::Tensor& tensor);
  // Whether it was made so: its elements are known as long as it lives.
  bool is_from_cpu() const { return from_cpu_; }

  // Which dimensions are likely to be of another size in another run of the program, one bit each:
  // those that the program that computed it has as symbols. Of whole numbers from the CPU, which
  // are texts, labels or places, all are.
  uint64_t varies() const { return varies_.load(std::memory_order_relaxed); }
  void set_varies(uint64_t dimensions) { varies_.store(dimensions, std::memory_order_relaxed); }

  size_t nbytes() const { return nbytes_; }
  void* data() const { return block_.data; }
  State state() const { return state_.load(std::memory_order_acquire); }

  // For the launcher: gives the buffer memory of its own, or that of a value that nobody needs any
  // more.
  void allocate();
  bool adopt(Buffer& donor);
  void set_ready();
  void set_failed(FailurePtr failure);
  const FailurePtr& failure() const { return failure_; }

  // The elements as a CPU tensor that shares this memory (for reading only) and keeps it alive.
  // Ready buffers only. A dtype other than the buffer's own reinterprets the bytes.
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
  std::atomic<uint64_t> varies_{0};
};

using BufferPtr = std::shared_ptr<Buffer>;

// What a program reads: a buffer from a byte on.
struct Input {
  Input(BufferPtr buffer, int64_t offset = 0) : buffer(std::move(buffer)), offset(offset) {}

  void* data() const { return static_cast<char*>(buffer->data()) + offset; }

  BufferPtr buffer;
  int64_t offset;
};

} // namespace ftm
