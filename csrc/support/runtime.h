// The recorder's state in this process: queues, the machine, tables, histories, logs. One object
// owns all of it.
//
// The state consists of *parts*, one for each type. A part is made when it is first used:
//
//   struct ProgramTable {
//     std::mutex mutex;
//     void reset();
//   };
//   auto& table = part<ProgramTable>();
//
// A part is never destroyed, since threads may use it until the process ends. Objects to which
// PyTorch keeps pointers (its hooks, guard, allocators, registrations) are no parts.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace ftm {

// The parts whose locks a fork acquires, so that the child finds them in a consistent state. Locks
// are acquired in this order. A part with a rank has `lock` and `unlock`.
enum class LockRank : uint8_t {
  recorder,
  launcher,
  memory_pool,
  memory_statistics,
  compiler,
  programs
};

class Runtime {
 public:
  // Returns the runtime of this process.
  static Runtime& instance();

  // Makes and registers a part. Only `part` calls it.
  template <typename Part>
  Part& add() {
    auto* made = new Part; // owned, and never destroyed
    const std::lock_guard<std::mutex> guard(mutex_);
    if constexpr (requires { made->reset(); }) {
      resets_.emplace_back([made] { made->reset(); });
    }
    if constexpr (requires { Part::kLockRank; }) {
      Forked forked{Part::kLockRank, [made] { made->lock(); }, [made] { made->unlock(); }, {}};
      if constexpr (requires { made->after_fork(); }) {
        forked.after_fork = [made] { made->after_fork(); };
      }
      forked_.push_back(std::move(forked));
    }
    return *made;
  }

  // Drops what this process would compile or learn again: loaded programs, and histories of traces.
  // Calls `reset` of each part that has it, without any lock.
  void reset();

 private:
  struct Forked {
    LockRank rank;
    std::function<void()> lock, unlock;
    std::function<void()> after_fork; // in the child, with all locks held; may be empty
  };

  Runtime();
  void lock_all();
  void unlock_all(bool is_child);

  std::mutex mutex_; // while it is held, no other lock is acquired
  std::vector<std::function<void()>> resets_;
  std::vector<Forked> forked_;
  std::vector<Forked> locked_; // during a fork
};

// Returns the part of this type.
template <typename Part>
Part& part() {
  static Part& made = Runtime::instance().add<Part>();
  return made;
}

} // namespace ftm
