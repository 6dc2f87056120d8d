#include "ops/op_info.h"

#include "ops/find_composite_kernel.h"
#include "ops/functional_form.h"
#include "graph/recorder_lock.h"
#include "support/runtime.h"

#include <ATen/core/enum_tag.h>

#include <unordered_map>

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
    case c10::TypeKind::TensorType: return ArgumentKind::tensor_list;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return ArgumentKind::int_list;
    case c10::TypeKind::FloatType: return ArgumentKind::float_list;
    case c10::TypeKind::BoolType: return ArgumentKind::bool_list;
    case c10::TypeKind::NumberType: return ArgumentKind::scalar_list;
    default: return std::nullopt;
  }
}

std::optional<ArgumentKind> argument_kind(const c10::Argument& argument) {
  const auto& type = plain_type(argument);
  switch (type.kind()) {
    case c10::TypeKind::TensorType: return ArgumentKind::tensor;
    case c10::TypeKind::ListType: return list_kind(type);
    case c10::TypeKind::NumberType:
      return ArgumentKind::scalar; // or scalar_constant, see apply_annotations
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::MemoryFormatType: return ArgumentKind::integer;
    case c10::TypeKind::BoolType:
      return argument.name() == "non_blocking" || argument.name() == "pin_memory"
                 ? ArgumentKind::ignored
                 : ArgumentKind::boolean;
    case c10::TypeKind::FloatType:
      return ArgumentKind::floating; // or scalar, see apply_annotations
    case c10::TypeKind::StringType: return ArgumentKind::string;
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::LayoutType: return ArgumentKind::ignored;
    default: return std::nullopt;
  }
}

// Sets the fields that follow from the traits, which may be replaced after the op was made.
void apply_annotations(Op& op) {
  op.traits = &op_traits(op.functional.operator_name().name);
  const auto& recorded = *op.traits; // those of `renorm` if `renorm_` was called
  const auto decide = [&](ArgumentKind& kind, const c10::Argument& argument) {
    const bool number = plain_type(argument).kind() == c10::TypeKind::NumberType;
    if (number && (kind == ArgumentKind::scalar || kind == ArgumentKind::scalar_constant)) {
      kind = recorded.constants.count(argument.name()) != 0 ? ArgumentKind::scalar_constant
                                                            : ArgumentKind::scalar;
    } else if (plain_type(argument).kind() == c10::TypeKind::FloatType) {
      kind = recorded.runtime.count(argument.name()) != 0 ? ArgumentKind::scalar
                                                          : ArgumentKind::floating;
    }
  };
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    decide(op.arguments[i].kind, op.handle.schema().arguments()[i]);
  }
  for (size_t i = 0; i < op.functional_kinds.size(); ++i) {
    decide(op.functional_kinds[i], op.functional.schema().arguments()[i]);
  }
  op.composite = find_composite_kernel(op.handle, op_traits(op.handle.schema().name()).composite);
  op.cpu_indices = op.traits->cpu_indices;
  op.forbids_overlap = op.traits->forbids_overlap;
  op.number_argument = op.traits->value_is_number
                           ? op.handle.schema().argumentIndexWithName("value").value_or(-1)
                           : -1;
  op.refuses_values = op.traits->refuses != Refusal::none;
  op.has_domain = !op.traits->domain.empty();
  op.index_rule = op.traits->indices.empty() ? nullptr : op.traits->indices.data();
  op.may_fail = op.index_rule != nullptr || op.traits->may_fail;
  // Indexing ops have the tag because of mask arguments; those are detected call by call.
  op.data_dependent = !op.cpu_indices && (op.handle.hasTag(at::Tag::dynamic_output_shape) ||
                                          op.handle.hasTag(at::Tag::data_dependent_output));
}

} // namespace

Op::Op(const c10::OperatorHandle& op)
    : handle(op), functional(op), called_name(full_name(op.operator_name())) {
  const auto& schema = handle.schema();
  for (const auto& argument : schema.arguments()) {
    const auto recorded_kind = argument_kind(argument);
    if (!recorded_kind || recorded_kind == ArgumentKind::scalar_list) {
      has_functional = false; // traces have no syntax for it
    }
    if (plain_type(argument).kind() == c10::TypeKind::GeneratorType) {
      generator = static_cast<int32_t>(arguments.size());
    }
    has_numbers = has_numbers || plain_type(argument).kind() == c10::TypeKind::NumberType;
    if (is_written(argument)) {
      written.push_back(static_cast<int32_t>(arguments.size()));
      has_functional = has_functional && recorded_kind == ArgumentKind::tensor;
    }
    arguments.push_back(
        {recorded_kind.value_or(ArgumentKind::ignored), is_written(argument),
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
      has_functional = false; // a view; kernels/views.cpp handles those that reach a backend
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
    functional_kinds.push_back(argument_kind(argument).value_or(ArgumentKind::ignored));
  }
  name = full_name(functional.operator_name());
  kind = torch::lazy::OpKind::Get(functional.operator_name().name);
  random = generator >= 0 || handle.hasTag(at::Tag::nondeterministic_seeded);
  apply_annotations(*this);
}

CallSpecPtr Op::find_spec(const Key& key, uint64_t hash) {
  const std::lock_guard<std::mutex> guard(mutex);
  const CallSpecPtr* found = specs.find(key, hash);
  return found != nullptr ? *found : CallSpecPtr();
}

void Op::insert_spec(const Key& key, uint64_t hash, const CallSpecPtr& spec) {
  const std::lock_guard<std::mutex> guard(mutex);
  specs.insert(key, hash, spec);
}

namespace {

struct OpTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Op>> ops;
};

} // namespace

Op& op_named(const std::string& name) {
  auto& table = part<OpTable>();
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

std::map<std::string, int64_t> recorded_calls() {
  std::vector<const Op*> ops;
  {
    auto& table = part<OpTable>();
    const std::lock_guard<std::mutex> guard(table.mutex);
    for (const auto& [name, op] : table.ops) {
      ops.push_back(op.get());
    }
  }
  std::map<std::string, int64_t> calls;
  const RecorderLock lock(recorder_mutex());
  for (const auto* op : ops) {
    if (op->recorded_calls != 0) {
      calls[op->name] += op->recorded_calls;
    }
  }
  return calls;
}

void clear_call_specs() {
  auto& table = part<OpTable>();
  std::lock_guard<std::mutex> guard(table.mutex);
  for (auto& [name, op] : table.ops) {
    std::lock_guard<std::mutex> op_guard(op->mutex);
    op->specs.clear();
    apply_annotations(*op);
  }
}

} // namespace ftm
