#include "memory/device_memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iomanip>
#include <sstream>

namespace ftm {
namespace {

size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Returns the smallest limit in files of this name in `folder` and its parents up to `root`. For a
// group without a limit the file has the word "max", or a number larger than any memory.
size_t least_limit(std::string folder, const std::string& root, const char* file, size_t least) {
  while (folder.size() >= root.size()) {
    size_t limit = 0;
    if (std::ifstream(folder + "/" + file) >> limit) {
      least = std::min(least, limit);
    }
    folder.resize(folder.find_last_of('/'));
  }
  return least;
}

// A line of /proc/self/cgroup is "number:controllers:/path". In cgroups version 2 the list of
// controllers is empty.
size_t control_group_memory(size_t least) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,") {
      least = least_limit("/sys/fs/cgroup" + path, "/sys/fs/cgroup", "memory.max", least);
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = least_limit(
          "/sys/fs/cgroup/memory" + path, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", least);
    }
  }
  return least;
}

} // namespace

size_t device_memory_size() {
  static const size_t limit = control_group_memory(physical_memory());
  return limit;
}

std::string size_text(size_t nbytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto amount = static_cast<double>(nbytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < units.size(); ++unit) {
    amount /= 1024;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 ? 0 : 2) << amount << ' ' << units.at(unit);
  return text.str();
}

} // namespace ftm
