#include "distributed/collective_tokens.h"

#include "support/counters.h"
#include "support/shutdown.h"
#include "sync/cut_trace.h"

#include <ATen/ops/zeros.h>
#include <pthread.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace ftm {
namespace {

constexpr c10::DeviceIndex kNone = -1;

// The last token of each device. Guarded by the recorder's lock; tensors are never removed.
std::map<c10::DeviceIndex, at::Tensor>& tokens() {
  static auto* instance = new std::map<c10::DeviceIndex, at::Tensor>;
  return *instance;
}

// Returns a trace with collectives on devices other than `except`, or null. Called under the
// recorder's lock.
PendingTrace* recorded_trace(c10::DeviceIndex except) {
  for (const auto& [device, token] : tokens()) {
    if (device != except) {
      if (auto* trace = variable_of(*token.unsafeGetTensorImpl()).trace()) {
        return trace;
      }
    }
  }
  return nullptr;
}

// The thread that launches collectives when their thread is idle.
class IdleLauncher {
 public:
  void notice() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!exists_) {
      std::thread([this] { watch(); }).detach();
      exists_ = true;
    }
    has_recorded_ = true;
    changed_.notify_one();
  }

 private:
  static constexpr auto kTick = std::chrono::milliseconds(100);
  static constexpr int kIdleTicks = 5;

  void watch() {
    pthread_setname_np(pthread_self(), "ftm-idle");
    while (true) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return has_recorded_; });
        has_recorded_ = false;
      }
      watch_trace();
    }
  }

  // Returns when no collectives are pending.
  static void watch_trace() {
    const PendingTrace* last = nullptr;
    int64_t last_calls = 0;
    int idle_ticks = 0;
    while (!is_shutting_down()) {
      std::this_thread::sleep_for(kTick);
      PendingTrace* trace = nullptr;
      int64_t calls = 0;
      {
        const RecorderLock lock(recorder_mutex());
        trace = recorded_trace(kNone);
        calls = trace == nullptr ? 0 : trace->calls.load();
      }
      if (trace == nullptr) {
        return;
      }
      idle_ticks = trace == last && calls == last_calls ? idle_ticks + 1 : 0;
      last = trace;
      last_calls = calls;
      if (idle_ticks >= kIdleTicks && !is_shutting_down()) {
        launch_idle(*trace);
        idle_ticks = 0;
      }
    }
  }

  static void launch_idle(PendingTrace& trace) {
    static auto& launches = counter("idle_launches");
    launches.fetch_add(1);
    try {
      launch(trace, CutReason::ended);
    } catch (const std::exception& error) {
      TORCH_WARN("a collective could not be launched: ", error.what());
    }
  }

  std::mutex mutex_; // acquired alone
  std::condition_variable changed_;
  bool exists_ = false; // the thread
  bool has_recorded_ = false;
};

IdleLauncher& idle_launcher() {
  static auto* instance = new IdleLauncher;
  return *instance;
}

} // namespace

at::Tensor token_of(c10::Device device) {
  {
    const RecorderLock lock(recorder_mutex());
    const auto found = tokens().find(device.index());
    if (found != tokens().end()) {
      return found->second;
    }
  }
  const at::Tensor made = at::zeros({1}, at::kByte).to(device);
  const RecorderLock lock(recorder_mutex());
  return tokens().emplace(device.index(), made).first->second;
}

void launch_recorded_collectives(c10::DeviceIndex except) {
  RecorderLock lock(recorder_mutex());
  while (auto* trace = recorded_trace(except)) {
    lock.unlock();
    launch(*trace, CutReason::ended);
    lock.lock();
  }
}

bool has_recorded_collectives(c10::DeviceIndex except) {
  return recorded_trace(except) != nullptr;
}

void launch_when_idle() {
  idle_launcher().notice();
}

} // namespace ftm
