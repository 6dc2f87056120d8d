#include "dispatch/unboxed_kernels.h"

#include "ops/op_info.h"
#include "dispatch/record.h"

#include <c10/util/MaybeOwned.h>

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace ftm {
namespace {

// Converts a C++ argument to an IValue. Tensors are borrowed, without an increment of the reference
// count.

c10::IValue borrow(const at::Tensor& tensor) {
  return c10::MaybeOwnedTraits<at::Tensor>::createBorrow(tensor);
}

c10::IValue borrow(const std::optional<at::Tensor>& tensor) {
  return tensor ? borrow(*tensor) : c10::IValue();
}

template <typename T>
c10::IValue borrow(const T& value) {
  return c10::IValue(value);
}

// The arguments of a call while it is recorded.
template <size_t count>
class BorrowedArguments {
 public:
  template <typename... Arguments>
  explicit BorrowedArguments(const Arguments&... arguments) : values_{borrow(arguments)...} {}
  ~BorrowedArguments() {
    for (auto& value : values_) {
      if (value.isTensor()) {
        c10::MaybeOwnedTraits<at::Tensor>::destroyBorrow(value.toTensor());
      }
    }
  }
  BorrowedArguments(const BorrowedArguments&) = delete;
  BorrowedArguments(BorrowedArguments&&) = delete;
  BorrowedArguments& operator=(const BorrowedArguments&) = delete;
  BorrowedArguments& operator=(BorrowedArguments&&) = delete;

  c10::ArrayRef<c10::IValue> values() const { return values_; }

 private:
  std::array<c10::IValue, count> values_;
};

template <typename Result, typename... Arguments>
Result written_argument(Arguments&... arguments) {
  static_assert((std::is_same_v<Arguments, at::Tensor> + ...) == 1);
  at::Tensor* written = nullptr;
  const auto visit = [&](auto& argument) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(argument)>, at::Tensor>) {
      written = &argument;
    }
  };
  (visit(arguments), ...);
  return *written;
}

template <typename Result, size_t... indices>
Result make_tuple(Results& results, std::index_sequence<indices...>) {
  return Result(std::move(results[indices])...);
}

template <typename Signature>
class UnboxedKernel;

template <typename Result, typename... Arguments>
class UnboxedKernel<Result(Arguments...)> {
 public:
  // `op` is never freed.
  explicit UnboxedKernel(OpReference& op) : op_(&op) {}

  Result operator()(Arguments... arguments) const {
    Op& op = op_->get();
    {
      const BorrowedArguments<sizeof...(Arguments)> borrowed(arguments...);
      Results results;
      if (try_record(op, borrowed.values(), results)) {
        return make_return(results, arguments...);
      }
    }
    torch::jit::Stack stack;
    stack.reserve(sizeof...(Arguments));
    (stack.emplace_back(arguments), ...);
    record(op, &stack);
    Results results;
    if constexpr (!std::is_reference_v<Result>) {
      for (auto& value : stack) {
        results.push_back(std::move(value).toTensor());
      }
    }
    return make_return(results, arguments...);
  }

 private:
  static Result make_return(Results& results, std::remove_reference_t<Arguments>&... arguments) {
    if constexpr (std::is_reference_v<Result>) {
      return written_argument<Result>(arguments...);
    } else if constexpr (std::is_same_v<Result, at::Tensor>) {
      return std::move(results[0]);
    } else {
      return make_tuple<Result>(results, std::make_index_sequence<std::tuple_size_v<Result>>());
    }
  }

  OpReference* op_;
};

// Encodes a signature as text, from C++ types or from a schema: one letter per type, results first.

template <typename T>
struct Letter;

// clang-format off
template <> struct Letter<const at::Tensor&> { static constexpr std::string_view text = "T"; };
template <> struct Letter<at::Tensor> { static constexpr std::string_view text = "T"; };
template <> struct Letter<at::Tensor&> { static constexpr std::string_view text = "W"; };
template <> struct Letter<const std::optional<at::Tensor>&> { static constexpr std::string_view text = "T?"; };
template <> struct Letter<const at::Scalar&> { static constexpr std::string_view text = "N"; };
template <> struct Letter<const std::optional<at::Scalar>&> { static constexpr std::string_view text = "N?"; };
template <> struct Letter<int64_t> { static constexpr std::string_view text = "i"; };
template <> struct Letter<std::optional<int64_t>> { static constexpr std::string_view text = "i?"; };
template <> struct Letter<bool> { static constexpr std::string_view text = "b"; };
template <> struct Letter<std::optional<bool>> { static constexpr std::string_view text = "b?"; };
template <> struct Letter<double> { static constexpr std::string_view text = "f"; };
template <> struct Letter<std::optional<double>> { static constexpr std::string_view text = "f?"; };
template <> struct Letter<at::ScalarType> { static constexpr std::string_view text = "d"; };
template <> struct Letter<std::optional<at::ScalarType>> { static constexpr std::string_view text = "d?"; };
template <size_t length> struct Letter<std::array<bool, length>> { static_assert(length < 10); static constexpr char text[] = {'b', '0' + length, 0}; };
template <> struct Letter<std::optional<c10::string_view>> { static constexpr std::string_view text = "s?"; };
template <> struct Letter<c10::string_view> { static constexpr std::string_view text = "s"; };
template <> struct Letter<at::IntArrayRef> { static constexpr std::string_view text = "I"; };
template <> struct Letter<at::OptionalIntArrayRef> { static constexpr std::string_view text = "I?"; };
template <> struct Letter<std::optional<at::Generator>> { static constexpr std::string_view text = "g?"; };
// clang-format on

template <typename... Types>
struct Letter<std::tuple<Types...>> {
  static std::string text() { return (std::string(Letter<Types>::text) + ...); }
};

template <typename T>
std::string letter() {
  if constexpr (requires { Letter<T>::text(); }) {
    return Letter<T>::text();
  } else {
    return std::string(Letter<T>::text);
  }
}

// Returns "" if no C++ type here corresponds.
std::string letter_of(const c10::Type& type, std::optional<int32_t> length = std::nullopt) {
  using Kind = c10::TypeKind;
  switch (type.kind()) {
    case Kind::TensorType: return "T";
    case Kind::NumberType: return "N";
    case Kind::SymIntType: // the dispatcher converts it to int64_t
    case Kind::IntType: return "i";
    case Kind::BoolType: return "b";
    case Kind::FloatType: return "f";
    case Kind::ScalarTypeType: return "d";
    case Kind::StringType: return "s";
    case Kind::GeneratorType: return "g";
    case Kind::ListType: {
      const auto element = letter_of(*type.containedType(0));
      return element == "i" ? "I" : element == "b" && length ? "b" + std::to_string(*length) : "";
    }
    case Kind::OptionalType: {
      const auto element = letter_of(*type.containedType(0));
      return element.empty() ? element : element + "?";
    }
    default: return "";
  }
}

std::optional<std::string> signature_of(const c10::FunctionSchema& schema) {
  std::string text;
  const auto add = [&](const c10::Argument& argument) {
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const auto letter = written ? "W" : letter_of(*argument.real_type(), argument.N());
    text += letter;
    return !letter.empty() && (!written || argument.type()->kind() == c10::TypeKind::TensorType);
  };
  for (const auto& result : schema.returns()) {
    if (!add(result)) {
      return std::nullopt;
    }
  }
  text += "(";
  for (const auto& argument : schema.arguments()) {
    if (!add(argument)) {
      return std::nullopt;
    }
  }
  return text;
}

// Makes the kernel of an op; nullopt if the op is called with other C++ types, as a few old ones
// are.
using KernelFactory = std::optional<torch::CppFunction> (*)(const c10::OperatorHandle& op);
using KernelFactories = std::unordered_map<std::string, KernelFactory>; // by signature

template <typename Result, typename... Arguments>
std::optional<torch::CppFunction> make_kernel(const c10::OperatorHandle& op) {
  try {
    (void)op.typed<Result(Arguments...)>();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  auto* reference = new OpReference(full_name(op.operator_name())); // never freed, as the kernel
  return torch::CppFunction(UnboxedKernel<Result(Arguments...)>(*reference));
}

template <typename Result, typename... Arguments>
void add_factory(KernelFactories& factories, std::type_identity<Result(Arguments...)>) {
  factories.emplace(
      letter<Result>() + "(" + (letter<Arguments>() + ...), &make_kernel<Result, Arguments...>);
}

template <typename... Signatures>
KernelFactories make_factories() {
  KernelFactories factories;
  (add_factory(factories, std::type_identity<Signatures>()), ...);
  return factories;
}

// Signatures with lists of tensors are left out: the tensors are copied in any case.
const KernelFactories& kernel_factories() {
  using T = at::Tensor;
  using R = const at::Tensor&;
  using W = at::Tensor&;
  using Rn = const std::optional<at::Tensor>&;
  using N = const at::Scalar&;
  using Nn = const std::optional<at::Scalar>&;
  using i = int64_t;
  using in = std::optional<int64_t>;
  using b = bool;
  using f = double;
  using fn = std::optional<double>;
  using d = at::ScalarType;
  using dn = std::optional<at::ScalarType>;
  using s = c10::string_view;
  using sn = std::optional<c10::string_view>;
  using I = at::IntArrayRef;
  using In = at::OptionalIntArrayRef;
  using b3 = std::array<bool, 3>;
  using gn = std::optional<at::Generator>;
  using T2 = std::tuple<T, T>;
  using T3 = std::tuple<T, T, T>;
  static const auto* factories = new KernelFactories(
      make_factories<
          // elementwise
          T(R), W(W), W(R, W), T(R, R), W(W, R), W(R, R, W), T(R, R, R), W(W, R, R), W(R, R, R, W),
          T(R, N), W(W, N), W(R, N, W), T(N, R), T(R, R, N), W(W, R, N), W(R, R, N, W), T(R, N, N),
          W(W, N, N), T(R, R, N, N), T(R, N, N, N), T(R, R, R, N), W(W, R, R, N), W(R, R, R, N, W),
          T(R, Nn, Nn), W(W, Nn, Nn), T(R, Rn, Rn), W(W, Rn, Rn), T(R, s), T(R, R, s), W(W, R, s),
          W(W, N, N, N), T(R, R, N, b), T(R, R, N, N, b), W(W, s), T(R, R, sn), W(W, R, sn),
          T(R, fn), T(R, R, fn), T(R, f, N, N, b, R), T(R, N, N, N, b, R), T(R, R, N, b, b),
          T(R, R, R, R), T(R, fn, Nn, Nn),
          // matrix products
          T(R, R, R, N, N), W(W, R, R, N, N), W(R, R, R, N, N, W), T(R, R, R, N, N, b), T(R, R, d),
          T3(R, R, R, b3),
          // reductions, scans, softmax, norms
          T(R, dn), T(R, In, b, dn), W(R, In, b, dn, W), T(R, i), T(R, i, b), T(R, I, b),
          T(R, in, b), T(R, i, dn), T(R, i, b, dn), W(W, i, dn), T(R, In, Nn, b), T2(R, In, Nn, b),
          T(R, N, In, b, dn), T(R, Nn, I, b), T(R, Nn, I, b, d), T2(R, i, b), T2(R, i),
          T2(R, i, b, b), T2(R, i, i, b, b), T2(R, b, i, b), T(R, R, i, d), T3(R, I, Rn, Rn, f),
          T2(R, I, Rn, fn), T3(R, R, I, R, R, Rn, Rn, b3), T3(R, R, Rn, Rn, Rn, Rn, Rn, b, f, b3),
          T3(R, R, R, R, Rn, i, i, i, i, b3), T3(R, Rn, Rn, b, f, f), T2(R), T2(R, R),
          T3(R, i, b, b),
          // shapes and indices
          T(R, I), T(R, I, I), T(R, R, I), T(R, i, i), T(R, i, i, i), T(R, I, N), T(R, R, i),
          T(R, R, i, i), W(W, i), T(R, i, R), T(R, i, R, b), T(R, i, R, R), T(R, i, R, N),
          W(W, i, R, R), W(W, i, R, N), T(R, R, i, b, b), T(R, R, i, i, b), T(R, i, R, R, N),
          W(W, i, R, R, N), T(R, I, i, R), T(R, I, i, i), T(R, R, i, in, in, i), T(R, i, in, in, i),
          // losses, pooling, resampling
          T(R, R, R, i), T(R, R, i, f), T(R, R, R, i, f), T(R, R, Rn, i), T(R, R, R, Rn, i),
          T2(R, R, Rn, i, i), T(R, R, R, Rn, i, i, R), T2(R, I, I, I, I, b),
          T(R, R, I, I, I, I, b, R), T(R, I, I, I, b, b, in), T(R, R, I, I, I, b, b, in),
          T(R, I, b, fn, fn), T(R, I, I, b, fn, fn), T(R, I, fn, fn), T(R, I, I, fn, fn),
          // random
          T(R, gn), W(W, gn), W(W, f, gn), W(W, f, f, gn), W(W, i, gn), W(W, i, in, gn),
          T(R, i, b, gn), T2(R, f, std::optional<bool>), T(R, R, f), T(R, f, gn), W(W, R, gn),
          T(R, R, gn)>());
  return *factories;
}

} // namespace

std::optional<torch::CppFunction> unboxed_kernel(const c10::OperatorHandle& op) {
  const auto& factories = kernel_factories();
  const auto signature = signature_of(op.schema());
  const auto found = signature ? factories.find(*signature) : factories.end();
  return found == factories.end() ? std::nullopt : found->second(op);
}

} // namespace ftm
