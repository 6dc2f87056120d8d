// Preloaded into a program: reports where a library breaks the lock order. Of two mutexes, one is
// always acquired first, and the GIL is never acquired while a mutex is held. Otherwise threads may
// deadlock, however rarely.
//
// Uses only standard C++, dlfcn.h, execinfo.h and pthread.h. Python functions are looked up by
// name; Python is not linked.
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace {

std::atomic<uintptr_t> begin{0}, end{0}; // of the library's code
std::atomic<long> taken{0};
std::FILE* reports = nullptr;

thread_local std::vector<void*> held;
thread_local bool at_work = false; // what is called from here is not watched

template <typename Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int lock_unwatched(pthread_mutex_t* mutex) {
  static const auto lock = original<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  return lock(mutex);
}

int unlock_unwatched(pthread_mutex_t* mutex) {
  static const auto unlock = original<int (*)(pthread_mutex_t*)>("pthread_mutex_unlock");
  return unlock(mutex);
}

bool is_watched(const void* caller) {
  const auto place = reinterpret_cast<uintptr_t>(caller);
  return place >= begin && place < end && !at_work;
}

pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER; // of the reports and the orders

class AtWork {
 public:
  AtWork() {
    at_work = true;
    lock_unwatched(&own);
  }
  ~AtWork() {
    unlock_unwatched(&own);
    at_work = false;
  }
};

// From the innermost call outwards, as `library(+offset)` for addr2line.
void report(const char* what) {
  std::array<void*, 40> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  std::fprintf(reports, "%s\n", what);
  std::fflush(reports);
  backtrace_symbols_fd(frames.data() + 2, std::max(count - 2, 0), fileno(reports));
}

void note_taken(void* mutex) {
  ++taken;
  if (!held.empty()) {
    const AtWork guard;
    static auto* orders = new std::set<std::pair<void*, void*>>;
    for (void* before : held) {
      if (orders->emplace(before, mutex).second && orders->count({mutex, before}) != 0) {
        report("two mutexes are taken in both orders");
      }
    }
  }
  held.push_back(mutex);
}

void note_given_back(void* mutex) {
  const auto last = std::find(held.rbegin(), held.rend(), mutex);
  if (last != held.rend()) {
    held.erase(std::next(last).base());
  }
}

void note_python() {
  if (!held.empty() && !at_work) {
    const AtWork guard;
    report("Python's lock is taken under a mutex");
  }
}

} // namespace

// Watches the loaded library with that path from here on, and writes into that file; false if there
// is none.
extern "C" bool watch(const char* library, const char* file) {
  const auto found = [](dl_phdr_info* info, size_t, void* wanted) {
    if (std::strcmp(info->dlpi_name, static_cast<const char*>(wanted)) != 0) {
      return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
        begin = info->dlpi_addr + segment.p_vaddr;
        end = begin + segment.p_memsz;
      }
    }
    return 1;
  };
  reports = std::fopen(file, "w");
  pthread_atfork(nullptr, nullptr, [] { held.clear(); }); // the child's locks are fresh ones
  return reports != nullptr && dl_iterate_phdr(found, const_cast<char*>(library)) != 0;
}

// How often a mutex was taken while watched.
extern "C" long taken_so_far() {
  return taken;
}

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  const bool watched = is_watched(__builtin_return_address(0));
  const int failed = lock_unwatched(mutex);
  if (watched && failed == 0) {
    note_taken(mutex);
  }
  return failed;
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!at_work) {
    note_given_back(mutex);
  }
  return unlock_unwatched(mutex);
}

extern "C" void PyEval_RestoreThread(void* state) {
  static const auto restore = original<void (*)(void*)>("PyEval_RestoreThread");
  note_python();
  restore(state);
}

extern "C" int PyGILState_Ensure() {
  static const auto ensure = original<int (*)()>("PyGILState_Ensure");
  static const auto has_it = original<int (*)()>("PyGILState_Check");
  if (has_it() == 0) {
    note_python();
  }
  return ensure();
}
