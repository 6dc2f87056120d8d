#include "memory/buffer.h"

#include "support/device_index.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace ftm {

namespace {

template <typename T>
Buffer::IndexRange find_index_range(const Buffer& buffer) {
  const auto* first = static_cast<const T*>(buffer.data());
  const size_t count = buffer.nbytes() / sizeof(T);
  const auto [low, high] = std::minmax_element(first, first + count);
  return {*low, *high};
}

} // namespace

const torch::lazy::BackendDevice& lazy_device() {
  static const auto* device = new torch::lazy::BackendDevice(
      std::make_shared<torch::lazy::BackendDeviceType>(static_cast<int8_t>(at::kPrivateUse1)), 0);
  return *device;
}

Buffer::Buffer(at::ScalarType dtype, c10::IntArrayRef sizes)
    : BackendData(lazy_device(), torch::lazy::Shape(dtype, sizes)),
      nbytes_(c10::multiply_integers(sizes) * c10::elementSize(dtype)),
      device_index_(current_device().index()) {}

Buffer::~Buffer() {
  free_block(block_);
}

BufferPtr Buffer::from_cpu(const at::Tensor& tensor, c10::DeviceIndex device_index) {
  const at::Tensor dense = tensor.contiguous();
  auto buffer = std::make_shared<Buffer>(dense.scalar_type(), dense.sizes());
  if (device_index >= 0) {
    buffer->set_device_index(device_index);
  }
  buffer->allocate();
  if (buffer->nbytes_ != 0) {
    std::memcpy(buffer->data(), dense.const_data_ptr(), buffer->nbytes_);
  }
  buffer->from_cpu_ = true;
  buffer->set_varying_dims(
      at::isIntegralType(dense.scalar_type(), /*includeBool=*/true) ? ~uint64_t{0} : 0);
  buffer->set_ready();
  return buffer;
}

Buffer::IndexRange Buffer::index_range() const {
  std::call_once(index_range_found_, [&] {
    index_range_ = shape().scalar_type() == at::kLong ? find_index_range<int64_t>(*this)
                                                      : find_index_range<int32_t>(*this);
  });
  return index_range_;
}

void Buffer::allocate() {
  if (block_.data == nullptr) {
    block_ = allocate_block(nbytes_, device_index_);
  }
}

bool Buffer::adopt(Buffer& donor) {
  if (donor.block_.data == nullptr || donor.block_.capacity < nbytes_) {
    return false;
  }
  block_ = donor.block_;
  donor.block_ = {};
  return true;
}

void Buffer::set_ready() {
  state_.store(State::ready, std::memory_order_release);
}

void Buffer::set_failed(FailurePtr failure) {
  failure_ = std::move(failure);
  state_.store(State::failed, std::memory_order_release);
}

at::Tensor Buffer::as_cpu(
    const BufferPtr& buffer, at::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
    int64_t offset) {
  auto* start = static_cast<char*>(buffer->data()) + offset * c10::elementSize(dtype);
  return at::from_blob(
      start, sizes, strides, [buffer](void*) {}, at::TensorOptions().dtype(dtype).device(at::kCPU));
}

Buffer::Handle Buffer::GetHandle() {
  return reinterpret_cast<Handle>(this);
}

void Buffer::Assign(const torch::lazy::BackendData&) {
  TORCH_CHECK(false, "ftm buffers are immutable: assign the storage's value instead");
}

bool Buffer::HasValue() const {
  return state() == State::ready;
}

} // namespace ftm
