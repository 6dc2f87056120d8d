#include "ops/compiled_ops.h"

#include "ops/op_info.h"
#include "support/runtime.h"

#include <shared_mutex>
#include <unordered_map>

namespace ftm {
namespace {

struct CompiledOpTable {
  std::shared_mutex mutex;
  bool all = false;
  std::unordered_map<std::string, uint64_t> dtypes;
};

} // namespace

void set_compiled_ops(const std::vector<std::pair<std::string, std::vector<std::string>>>& ops) {
  static const std::unordered_map<std::string, uint64_t> bits = [] {
    std::unordered_map<std::string, uint64_t> map;
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
      map[dtype_token(static_cast<at::ScalarType>(i))] = uint64_t{1} << i;
    }
    return map;
  }();
  auto& table = part<CompiledOpTable>();
  {
    std::unique_lock<std::shared_mutex> guard(table.mutex);
    table.all = false;
    table.dtypes.clear();
    for (const auto& [name, tokens] : ops) {
      table.all = table.all || name == "*";
      uint64_t mask = 0;
      for (const auto& token : tokens) {
        const auto found = bits.find(token);
        TORCH_CHECK_VALUE(
            found != bits.end(), "native op ", name, ": unknown dtype token '", token, "'");
        mask |= found->second;
      }
      table.dtypes[name] = mask;
    }
  }
  clear_call_specs();
}

bool is_compiled(const std::string& name, uint64_t dtypes) {
  auto& table = part<CompiledOpTable>();
  std::shared_lock<std::shared_mutex> guard(table.mutex);
  if (table.all) {
    return true;
  }
  const auto found = table.dtypes.find(name);
  return found != table.dtypes.end() && (dtypes & ~found->second) == 0;
}

} // namespace ftm
