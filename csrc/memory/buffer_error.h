// The error that kept a value from being computed. It is stored in the value's buffer and raised,
// with the exception type of the eager op, when the value is read.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>

namespace ftm {

// A failed computation's error. Immutable but for `seen`; shared by all its results.
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
  std::atomic<bool> seen{false}; // the exception was raised at least once
};
using FailurePtr = std::shared_ptr<Failure>;

// Makes a failure from a program's exception; `where` is a line of text that names the place.
FailurePtr failure_from(const std::exception& error, const std::string& where);

// Raises the stored error with its exception type, and marks it as seen.
[[noreturn]] void throw_failure(Failure& failure);

} // namespace ftm
