#include "random/generator.h"

#include "eager/trial_calls.h"
#include "ops/op.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GeneratorImpl.h>

#include <cstring>
#include <random>

namespace ftm {
namespace {

class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  PhiloxGenerator()
      : GeneratorImpl(
            c10::Device(c10::kPrivateUse1, 0), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override {
    offset_ = offset;
  }
  uint64_t get_offset() const override {
    return offset_;
  }
  uint64_t current_seed() const override {
    return seed_;
  }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }

  // 16 bytes: seed, offset.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(
        state.numel() == 2 * sizeof(uint64_t), "RNG state of device ftm has ", 2 * sizeof(uint64_t),
        " bytes, this one has ", state.numel());
    const auto* bytes = static_cast<const char*>(state.data());
    std::memcpy(&seed_, bytes, sizeof(uint64_t));
    std::memcpy(&offset_, bytes + sizeof(uint64_t), sizeof(uint64_t));
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({2 * sizeof(uint64_t)}, at::kByte);
    auto* bytes = static_cast<char*>(state.mutable_data_ptr());
    std::memcpy(bytes, &seed_, sizeof(uint64_t));
    std::memcpy(bytes + sizeof(uint64_t), &offset_, sizeof(uint64_t));
    return state.getIntrusivePtr();
  }

  RandomDraw draw() {
    return {seed_, offset_++};
  }

 private:
  PhiloxGenerator* clone_impl() const override {
    auto* copy = new PhiloxGenerator;
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

} // namespace

const at::Generator& default_generator() {
  static const auto* generator = new at::Generator(make_generator());
  return *generator;
}

at::Generator make_generator() {
  return at::make_generator<PhiloxGenerator>();
}

RandomDraw next_random_draw(const c10::IValue& argument) {
  at::Generator generator = argument.isNone() ? default_generator() : argument.toGenerator();
  TORCH_CHECK(
      generator.device().type() == c10::kPrivateUse1, "Expected a 'ftm' device type for generator but found '",
      generator.device().type(), "'");
  const std::lock_guard<std::mutex> guard(generator.mutex());
  return static_cast<PhiloxGenerator*>(generator.unsafeGetGeneratorImpl())->draw();
}

namespace {

// Calls the op on the CPU for its checks, on these stand-ins of the arguments.
void draw_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const CpuStream stream(op, stack, {0, 0});
  op.callBoxed(stack);
}

at::Tensor one_on_cpu(const at::Tensor& tensor) {
  return at::zeros({1}, tensor.options().device(at::kCPU));
}

} // namespace

void check_draw(const Op& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& name = op.handle.schema().name();
  if (name == "aten::multinomial") {
    const auto categories = arguments[0].toTensor().size(-1);
    const auto count = arguments[1].toInt();
    TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
    TORCH_CHECK(
        arguments[2].toBool() || count <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  } else if (name == "aten::native_dropout") {
    const double keep = 1 - arguments[1].toDouble();
    const bool trains = arguments[2].isNone() || arguments[2].toBool();
    TORCH_CHECK(
        !trains || (keep >= 0 && keep <= 1), "bernoulli_ expects p to be in [0, 1], but got p=", keep);
  } else if (name == "aten::randperm" && !op.written.empty()) {
    const auto& out = arguments[op.written[0]].toTensor();
    at::native::check_supported_max_int_with_precision(arguments[0].toInt(), one_on_cpu(out));
  } else if (name == "aten::normal" && !op.written.empty()) {
    draw_on_cpu(op.handle, stand_ins(arguments, cpu_like, c10::kCPU)); // it broadcasts, by rules of its own
  }
  if (name.back() == '_' || op.handle.operator_name().overload_name == "p") {
    draw_on_cpu(op.handle, stand_ins(arguments, one_on_cpu, c10::kCPU));
  }
}

CpuStream::CpuStream(const c10::OperatorHandle& op, torch::jit::Stack& stack, const RandomDraw& draw) {
  const uint64_t seed = draw.seed ^ draw.offset * 0x9e3779b97f4a7c15ULL;
  const auto& arguments = op.schema().arguments();
  const size_t base = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "generator") {
      stack[base + i] = at::detail::createCPUGenerator(seed);
      return;
    }
  }
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> guard(generator.mutex());
  lent_state_ = generator.get_state();
  generator.set_current_seed(seed);
}

CpuStream::~CpuStream() {
  if (lent_state_.defined()) {
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> guard(generator.mutex());
    generator.set_state(lent_state_);
  }
}

uint32_t philox_word(uint64_t index, uint64_t seed, uint64_t offset) {
  const uint64_t block = index / 4;
  std::array<uint32_t, 4> counter = {
      static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(offset),
      static_cast<uint32_t>(offset >> 32)};
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter[index % 4];
}

} // namespace ftm
