#include "random/generator.h"

#include "support/device_index.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <cstring>
#include <mutex>

namespace ftm {
namespace {

// Replaces the default generator's offset on a thread with a LocalRandomOffset.
thread_local uint64_t local_offset = 0;
thread_local bool has_local_offset = false;

class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  PhiloxGenerator(c10::DeviceIndex device, bool is_default)
      : GeneratorImpl(
            c10::Device(c10::kPrivateUse1, device),
            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        is_default_(is_default) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    set_offset(0);
  }
  void set_offset(uint64_t offset) override { (is_own() ? local_offset : offset_) = offset; }
  uint64_t get_offset() const override { return is_own() ? local_offset : offset_; }
  uint64_t current_seed() const override { return seed_; }
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
    uint64_t offset = 0;
    std::memcpy(&seed_, bytes, sizeof(uint64_t));
    std::memcpy(&offset, bytes + sizeof(uint64_t), sizeof(uint64_t));
    set_offset(offset);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({2 * sizeof(uint64_t)}, at::kByte);
    auto* bytes = static_cast<char*>(state.mutable_data_ptr());
    const uint64_t offset = get_offset();
    std::memcpy(bytes, &seed_, sizeof(uint64_t));
    std::memcpy(bytes + sizeof(uint64_t), &offset, sizeof(uint64_t));
    return state.getIntrusivePtr();
  }

  RandomDraw draw() {
    const RandomDraw drawn{seed_, get_offset()};
    set_offset(drawn.offset + 1);
    return drawn;
  }

 private:
  bool is_own() const { return is_default_ && has_local_offset; }
  PhiloxGenerator* clone_impl() const override {
    auto* copy = new PhiloxGenerator(device().index(), /*is_default=*/false);
    copy->seed_ = seed_;
    copy->offset_ = get_offset();
    return copy;
  }

  const bool is_default_;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

} // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators = new std::array<at::Generator, kMaxDevices>;
  static std::mutex mutex; // acquired alone
  const auto index = resolve_device(device);
  const std::lock_guard<std::mutex> guard(mutex);
  auto& generator = (*generators)[index];
  if (!generator.defined()) {
    generator = at::make_generator<PhiloxGenerator>(index, /*is_default=*/true);
  }
  return generator;
}

at::Generator make_generator(c10::DeviceIndex device) {
  return at::make_generator<PhiloxGenerator>(resolve_device(device), /*is_default=*/false);
}

LocalRandomOffset::LocalRandomOffset() {
  local_offset = 0;
  has_local_offset = true;
}

LocalRandomOffset::~LocalRandomOffset() {
  has_local_offset = false;
}

RandomDraw next_random_draw(const c10::IValue& argument) {
  at::Generator generator = argument.isNone() ? default_generator() : argument.toGenerator();
  TORCH_CHECK(
      generator.device().type() == c10::kPrivateUse1,
      "Expected a 'ftm' device type for generator but found '", generator.device().type(), "'");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !has_local_offset ||
          generator.unsafeGetGeneratorImpl() == default_generator().unsafeGetGeneratorImpl(),
      "a captured program draws from the default generator alone: its launches know no other");
  const std::lock_guard<std::mutex> guard(generator.mutex());
  return static_cast<PhiloxGenerator*>(generator.unsafeGetGeneratorImpl())->draw();
}

} // namespace ftm
