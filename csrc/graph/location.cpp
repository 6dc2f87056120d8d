#include "graph/location.h"

#include "process/python.h"

#include <atomic>

namespace ftm {
namespace {

std::atomic<bool> wanted{false};
thread_local std::shared_ptr<torch::lazy::UserMetaData> noted;

} // namespace

void set_locations(bool on) {
  wanted = on;
  noted = nullptr;
}

void note_location() {
  if (wanted.load(std::memory_order_relaxed)) {
    auto text = python_location();
    noted = text.empty() ? nullptr : std::make_shared<Location>(std::move(text));
  }
}

const std::shared_ptr<torch::lazy::UserMetaData>& noted_location() {
  static const std::shared_ptr<torch::lazy::UserMetaData> none;
  return wanted.load(std::memory_order_relaxed) ? noted : none;
}

} // namespace ftm
