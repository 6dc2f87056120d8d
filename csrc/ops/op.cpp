#include "ops/op.h"

#include "eager/known_indices.h"
#include "recorder/register_ops.h"

#include <ATen/core/enum_tag.h>

#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

namespace ftm {
namespace {

const c10::Type& plain_type(const c10::Argument& argument) {
  const auto& type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    return *optional->getElementType();
  }
  return *type;
}

std::optional<ArgumentKind> list_kind(const c10::Type& list) {
  c10::TypePtr element = list.containedType(0);
  if (auto optional = element->cast<c10::OptionalType>()) {
    element = optional->getElementType();
  }
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::tensor_list;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgumentKind::int_list;
    case c10::TypeKind::FloatType:
      return ArgumentKind::float_list;
    case c10::TypeKind::BoolType:
      return ArgumentKind::bool_list;
    case c10::TypeKind::NumberType:
      return ArgumentKind::scalar_list;
    default:
      return std::nullopt;
  }
}

// Scalars that shape the program: result shapes, the code of a norm or a power. The others may change from
// step to step.
bool is_constant(const std::string& op, const std::string& argument) {
  static const std::unordered_set<std::string> ops = {
      "aten::arange", "aten::range", "aten::linspace", "aten::logspace", "aten::linalg_vector_norm",
      "aten::norm", "aten::histc", "aten::pow", "aten::pow_", "aten::renorm", "aten::dist", "aten::_cdist_forward"};
  static const std::unordered_set<std::string> arguments = {
      "start", "end", "step", "ord", "p", "exponent", "min", "max"};
  return ops.count(op) != 0 && arguments.count(argument) != 0;
}

std::optional<ArgumentKind> argument_kind(const std::string& op, const c10::Argument& argument) {
  const auto& type = plain_type(argument);
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::tensor;
    case c10::TypeKind::ListType:
      return list_kind(type);
    case c10::TypeKind::NumberType:
      return is_constant(op, argument.name()) ? ArgumentKind::scalar_constant : ArgumentKind::scalar;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::MemoryFormatType:
      return ArgumentKind::integer;
    case c10::TypeKind::BoolType:
      return argument.name() == "non_blocking" || argument.name() == "pin_memory" ? ArgumentKind::ignored
                                                                                  : ArgumentKind::boolean;
    case c10::TypeKind::FloatType:
      return ArgumentKind::floating;
    case c10::TypeKind::StringType:
      return ArgumentKind::string;
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::LayoutType:
      return ArgumentKind::ignored;
    default:
      return std::nullopt;
  }
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::string display_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

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

// The functional base names of an in-place or out= op, most likely first.
std::vector<std::string> functional_names(const std::string& name) {
  static const std::unordered_map<std::string, std::string> renamed = {
      {"aten::normal_", "aten::normal_functional"}, {"aten::_index_put_impl_", "aten::index_put"}};
  const auto found = renamed.find(name);
  if (found != renamed.end()) {
    return {found->second};
  }
  if (name.rfind("aten::__i", 0) == 0) {
    return {"aten::__" + name.substr(9)};
  }
  if (name.back() == '_' && name.compare(name.size() - 2, 2, "__") != 0) {
    return {name.substr(0, name.size() - 1)};
  }
  return {name};
}

// True if `candidate` takes what `op` takes without its out= arguments, and writes nothing.
bool is_functional_form(
    const c10::FunctionSchema& op, const c10::FunctionSchema& candidate, bool compare_names) {
  std::vector<const c10::Argument*> expected;
  for (const auto& argument : op.arguments()) {
    if (!(argument.kwarg_only() && is_written(argument))) {
      expected.push_back(&argument);
    }
  }
  const auto& actual = candidate.arguments();
  size_t own = 0;
  for (const auto& argument : actual) {
    // Factory functions take where to put the result, which out= says otherwise.
    const auto& name = argument.name();
    const bool placing = name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
    if (own < expected.size() && !is_written(argument) &&
        *argument.real_type() == *expected[own]->real_type() &&
        (!compare_names || argument.name() == expected[own]->name())) {
      ++own;
    } else if (!placing) {
      return false;
    }
  }
  return own == expected.size() && candidate.returns().size() > 0;
}

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

bool one_of(const std::string& name, const std::unordered_set<std::string>& names) {
  return names.count(name) != 0;
}

} // namespace

Op::Op(c10::OperatorHandle op)
    : handle(op), functional(op), called_name(display_name(op.operator_name())) {
  const auto& schema = handle.schema();
  for (const auto& argument : schema.arguments()) {
    const auto argument_facts = argument_kind(schema.name(), argument);
    if (!argument_facts || argument_facts == ArgumentKind::scalar_list) {
      has_functional = false; // the trace has no text for it
    }
    if (plain_type(argument).kind() == c10::TypeKind::GeneratorType) {
      generator = static_cast<int32_t>(arguments.size());
    }
    has_numbers = has_numbers || argument_facts == ArgumentKind::scalar ||
        argument_facts == ArgumentKind::scalar_constant;
    if (is_written(argument)) {
      written.push_back(static_cast<int32_t>(arguments.size()));
      has_functional = has_functional && argument_facts == ArgumentKind::tensor;
    }
    arguments.push_back(
        {argument_facts.value_or(ArgumentKind::ignored), is_written(argument),
         is_written(argument) && argument.kwarg_only()});
  }
  for (const auto& result : schema.returns()) {
    OpReturn source{-1};
    if (result.alias_info() != nullptr && result.alias_info()->isWrite()) {
      for (const int32_t index : written) {
        const auto& alias = schema.arguments()[index].alias_info();
        if (alias->beforeSets() == result.alias_info()->beforeSets()) {
          source.argument = index;
        }
      }
      has_functional = has_functional && source.argument >= 0;
    } else if (result.alias_info() != nullptr) {
      has_functional = false; // a view: the kernels in views.cpp know those that reach a backend
    }
    returns.push_back(source);
  }
  if (!written.empty()) {
    const auto found = find_functional(handle);
    if (found && found->schema().returns().size() == written.size()) {
      functional = *found;
    } else {
      has_functional = false;
    }
  }
  for (const auto& argument : functional.schema().arguments()) {
    functional_kinds.push_back(argument_kind(schema.name(), argument).value_or(ArgumentKind::ignored));
  }
  name = display_name(functional.operator_name());
  kind = torch::lazy::OpKind::Get(functional.operator_name().name);
  composite = composite_kernel(handle);
  random = generator >= 0 || handle.hasTag(at::Tag::nondeterministic_seeded);
  static const std::unordered_set<std::string> indexing = {"aten::index", "aten::index_put"};
  cpu_indices = one_of(functional.operator_name().name, indexing);
  static const std::unordered_set<std::string> apart = {
      "aten::cat",       "aten::gather",       "aten::index",        "aten::index_add", "aten::index_copy",
      "aten::index_fill", "aten::index_put",   "aten::index_reduce", "aten::index_select", "aten::kthvalue",
      "aten::masked_select", "aten::put",      "aten::scatter",      "aten::scatter_add", "aten::scatter_reduce",
      "aten::take"};
  reads_late = one_of(functional.operator_name().name, apart);
  static const std::unordered_set<std::string> lax = {
      "aten::bucketize",    "aten::fractional_max_pool3d", "aten::index_add",      "aten::index_copy", "aten::index_fill",
      "aten::index_reduce", "aten::index_select",          "aten::isin",           "aten::masked_scatter", "aten::put",
      "aten::searchsorted", "aten::select_scatter",        "aten::slice_scatter",  "aten::take"};
  lax_meta = one_of(functional.operator_name().name, lax);
  takes_places = ftm::takes_places(functional.operator_name().name);
  // Indexing has the tag for masks only: those are told apart call by call.
  data_dependent = !cpu_indices &&
      (handle.hasTag(at::Tag::dynamic_output_shape) || handle.hasTag(at::Tag::data_dependent_output));
}

namespace {

struct OpTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Op>> ops;
};

OpTable& op_table() {
  static auto* table = new OpTable;
  return *table;
}

struct NativeTable {
  std::shared_mutex mutex;
  bool all = false;
  std::unordered_map<std::string, uint64_t> dtypes;
};

NativeTable& native_table() {
  static auto* table = new NativeTable;
  return *table;
}

} // namespace

Op& op_named(const std::string& name) {
  auto& table = op_table();
  std::lock_guard<std::mutex> guard(table.mutex);
  auto& op = table.ops[name];
  if (!op) {
    const auto dot = name.find('.');
    const auto overload = dot == std::string::npos ? std::string() : name.substr(dot + 1);
    op = std::make_unique<Op>(c10::Dispatcher::singleton().findSchemaOrThrow(
        name.substr(0, dot).c_str(), overload.c_str()));
  }
  return *op;
}

void forget_forms() {
  auto& table = op_table();
  std::lock_guard<std::mutex> guard(table.mutex);
  for (auto& [name, op] : table.ops) {
    std::lock_guard<std::mutex> op_guard(op->mutex);
    op->forms.clear();
  }
}

void set_native_ops(const std::vector<std::pair<std::string, std::vector<std::string>>>& ops) {
  static const std::unordered_map<std::string, uint64_t> bits = [] {
    std::unordered_map<std::string, uint64_t> map;
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
      map[dtype_token(static_cast<at::ScalarType>(i))] = uint64_t{1} << i;
    }
    return map;
  }();
  auto& table = native_table();
  {
    std::unique_lock<std::shared_mutex> guard(table.mutex);
    table.all = false;
    table.dtypes.clear();
    for (const auto& [name, tokens] : ops) {
      table.all = table.all || name == "*";
      uint64_t mask = 0;
      for (const auto& token : tokens) {
        const auto found = bits.find(token);
        TORCH_CHECK_VALUE(found != bits.end(), "native op ", name, ": unknown dtype token '", token, "'");
        mask |= found->second;
      }
      table.dtypes[name] = mask;
    }
  }
  forget_forms();
}

bool is_native(const std::string& name, uint64_t dtypes) {
  auto& table = native_table();
  std::shared_lock<std::shared_mutex> guard(table.mutex);
  if (table.all) {
    return true;
  }
  const auto found = table.dtypes.find(name);
  return found != table.dtypes.end() && (dtypes & ~found->second) == 0;
}

} // namespace ftm
