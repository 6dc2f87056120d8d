// Reductions that the carrier does not have: averages, and elements of types that it does not add.
#pragma once

#include "distributed/collective.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>

namespace ftm {

// A reduction in two parts: what is done to each rank's elements before it, and to the result.
class Reduction {
 public:
  // Throws for a reduction that the type of elements does not have.
  Reduction(const c10d::ReduceOp& op, at::ScalarType dtype, int ranks);

  // The reduction to ask the carrier for.
  c10d::ReduceOp carried() const { return op_; }
  // The attribute of a recorded collective; "" if the machine does not have the reduction.
  std::string attribute() const;
  // Whether the carrier (gloo) reduces such elements.
  bool is_carried() const { return is_carried_; }
  // Whether `prepare` writes.
  bool scales() const { return factor_ != 1; }
  // Scales this rank's elements, in place.
  void prepare(at::Tensor& elements) const;
  // Divides the sum, in place.
  void complete(at::Tensor& result) const;
  // Reduces `parts` (ranks x ...) to one part, and completes it.
  void reduce(const at::Tensor& parts, at::Tensor& result) const;

 private:
  c10d::ReduceOp::RedOpType op_;
  bool averages_ = false;
  bool is_carried_;
  double factor_ = 1;
  int ranks_;
};

} // namespace ftm
