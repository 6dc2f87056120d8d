#include "ops/functional_form.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace ftm {
namespace {

const std::vector<c10::OperatorName>& overloads(const std::string& name) {
  static const auto* table = [] {
    auto* names = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (const auto& op : c10::Dispatcher::singleton().getAllOpNames()) {
      if (op.name.rfind("aten::", 0) == 0) {
        (*names)[op.name].push_back(op);
      }
    }
    return names;
  }();
  static const std::vector<c10::OperatorName> none;
  const auto found = table->find(name);
  return found == table->end() ? none : found->second;
}

// Candidate base names for the functional variant of an in-place or out= op, best first.
std::vector<std::string> functional_names(const std::string& name) {
  static const std::string operators = "aten::__i"; // __iand__, __ilshift__
  if (name.rfind(operators, 0) == 0) {
    return {"aten::__" + name.substr(operators.size())};
  }
  if (name.back() == '_' && name.compare(name.size() - 2, 2, "__") != 0) {
    const auto base = name.substr(0, name.size() - 1);
    return {base, base + "_functional"}; // the second, if the plain name is another op's
  }
  return {name};
}

// Whether `candidate` has the arguments of `op` except its out= arguments, and writes to none.
bool is_functional_form(
    const c10::FunctionSchema& op, const c10::FunctionSchema& candidate, bool compare_names) {
  std::vector<const c10::Argument*> expected;
  for (const auto& argument : op.arguments()) {
    if (!(argument.kwarg_only() && is_written(argument))) {
      expected.push_back(&argument);
    }
  }
  const auto& actual = candidate.arguments();
  size_t matched = 0;
  for (const auto& argument : actual) {
    // Factory functions also have arguments for the placement of the result, which out= determines.
    const auto& name = argument.name();
    const bool is_placement =
        name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
    if (matched < expected.size() && !is_written(argument) &&
        *argument.real_type() == *expected[matched]->real_type() &&
        (!compare_names || argument.name() == expected[matched]->name())) {
      ++matched;
    } else if (!is_placement) {
      return false;
    }
  }
  return matched == expected.size() && candidate.returns().size() > 0;
}

} // namespace

std::optional<c10::OperatorHandle> find_functional(const c10::OperatorHandle& op) {
  for (const auto& name : functional_names(op.schema().name())) {
    for (const bool compare_names : {true, false}) {
      for (const auto& overload : overloads(name)) {
        auto candidate = c10::Dispatcher::singleton().findSchema(overload);
        if (candidate && is_functional_form(op.schema(), candidate->schema(), compare_names)) {
          return candidate;
        }
      }
    }
  }
  return std::nullopt;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

} // namespace ftm
