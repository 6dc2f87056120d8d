// Dense CPU tensors as the carrier takes them, and checks of arguments that collectives share.
#pragma once

#include "distributed/collective.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ftm {

// Returns a dense CPU tensor's memory as bytes, for collectives that only move elements: the
// carrier does not know all types.
at::Tensor bytes_of(const at::Tensor& tensor);
Tensors bytes_of(const Tensors& tensors);
int64_t total_bytes(const Tensors& tensors);
at::Tensor concatenate_bytes(const Tensors& tensors);
// Copies consecutive bytes to the tensors.
void split_bytes(const at::Tensor& bytes, const Tensors& tensors);

Tensors flatten(const std::vector<Tensors>& lists);

// Throw ValueError for arguments that eager refuses; `name` is the collective's.
void check_one_dtype(const char* name, const Tensors& tensors);
void check_nonempty(const char* name, const Tensors& tensors);
void check_rank(const char* name, const char* role, int64_t rank, int size);

// Exchanges bytes: part r goes to rank r. Sizes are in bytes.
c10::intrusive_ptr<c10d::Work> exchange(
    c10d::Backend& carrier, at::Tensor received, at::Tensor sent,
    std::vector<int64_t> received_sizes, std::vector<int64_t> sent_sizes,
    std::chrono::milliseconds timeout);
// Gathers the bytes of all ranks in one tensor.
c10::intrusive_ptr<c10d::Work> gather_all(
    c10d::Backend& carrier, at::Tensor received, at::Tensor sent,
    std::chrono::milliseconds timeout);

} // namespace ftm
