#include "memory/buffer_error.h"

#include <c10/util/Exception.h>

namespace ftm {
namespace {

Failure::Type type_of(const std::exception& error) {
  using Type = Failure::Type;
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr) {
    return Type::index;
  }
  if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) {
    return Type::value;
  }
  if (dynamic_cast<const c10::TypeError*>(&error) != nullptr) {
    return Type::type;
  }
  if (dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr) {
    return Type::not_implemented;
  }
  if (dynamic_cast<const c10::LinAlgError*>(&error) != nullptr) {
    return Type::linear_algebra;
  }
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return Type::out_of_memory;
  }
  return Type::runtime;
}

} // namespace

FailurePtr failure_from(const std::exception& error, const std::string& where) {
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string message =
      from_torch != nullptr ? from_torch->what_without_backtrace() : error.what();
  return std::make_shared<Failure>(type_of(error), message + "\n" + where);
}

void throw_failure(Failure& failure) {
  failure.seen = true;
  switch (failure.type) {
    case Failure::Type::index: TORCH_CHECK_INDEX(false, failure.message);
    case Failure::Type::value: TORCH_CHECK_VALUE(false, failure.message);
    case Failure::Type::type: TORCH_CHECK_TYPE(false, failure.message);
    case Failure::Type::not_implemented: TORCH_CHECK_NOT_IMPLEMENTED(false, failure.message);
    case Failure::Type::linear_algebra: TORCH_CHECK_LINALG(false, failure.message);
    case Failure::Type::out_of_memory: TORCH_CHECK_WITH(OutOfMemoryError, false, failure.message);
    case Failure::Type::runtime: break;
  }
  TORCH_CHECK(false, failure.message);
}

} // namespace ftm
