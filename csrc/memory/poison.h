// Why a value was not computed: the error of the program that should have made it, kept until
// somebody asks, with the exception type that eager raises.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>

namespace ftm {

struct Failure {
  enum class Type : uint8_t {
    runtime,
    index,
    value,
    type,
    not_implemented,
    linear_algebra,
    out_of_memory
  };

  Failure(Type type, std::string message) : type(type), message(std::move(message)) {}

  const Type type;
  const std::string message;
  std::atomic<bool> seen{false}; // somebody has got the exception
};
using FailurePtr = std::shared_ptr<Failure>;

// `error` as a failure; `where` says on a line of its own where it happened.
FailurePtr failure_from(const std::exception& error, const std::string& where);

// Raises it, of its type, and marks it seen.
[[noreturn]] void throw_failure(Failure& failure);

} // namespace ftm
