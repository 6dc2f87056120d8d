#include "partition/varying_dims.h"

#include <algorithm>
#include <unordered_map>

namespace ftm {
namespace {

constexpr size_t kMinRank = 2; // parts of a vector may be anything

uint64_t varying_result_dims(const ValueType& type, const Buffer& buffer) {
  const auto dimensions = buffer.varying_dims();
  const bool whole = buffer.shape().sizes() == c10::IntArrayRef(type.sizes);
  return whole || dimensions == 0 ? dimensions : ~uint64_t{0}; // of a part, any dimension may vary
}

// Returns the only dimension in which parts of a buffer are smaller than the buffer, if their sizes
// there differ; otherwise -1.
int64_t differing_dim(c10::ArrayRef<const ValueType*> parts, const Buffer& buffer) {
  const auto whole = buffer.shape().sizes();
  int64_t found = -1;
  for (size_t d = 0; d < whole.size(); ++d) {
    const auto is_whole = [&](const ValueType* part) { return part->sizes[d] == whole[d]; };
    if (std::all_of(parts.begin(), parts.end(), is_whole)) {
      continue;
    }
    if (found >= 0) {
      return -1;
    }
    found = static_cast<int64_t>(d);
  }
  const auto is_first = [&](const ValueType* part) {
    return part->sizes[found] == parts.front()->sizes[found];
  };
  return found >= 0 && !std::all_of(parts.begin(), parts.end(), is_first) ? found : -1;
}

void add_differing_dims(
    const std::vector<ValueType>& parameters, const std::vector<Input>& inputs,
    std::vector<uint64_t>& found) {
  std::unordered_map<const Buffer*, size_t> seen;
  std::vector<std::vector<size_t>> parts; // by buffer, in order of first use
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& buffer = *inputs[i].buffer;
    const auto whole = buffer.shape().sizes();
    if (!buffer.is_from_cpu() && whole.size() >= kMinRank &&
        parameters[i].sizes.size() == whole.size() &&
        whole != c10::IntArrayRef(parameters[i].sizes)) {
      const size_t number = seen.emplace(&buffer, parts.size()).first->second;
      parts.resize(seen.size());
      parts[number].push_back(i);
    }
  }
  for (const auto& of_buffer : parts) {
    std::vector<const ValueType*> types;
    types.reserve(of_buffer.size());
    for (const size_t i : of_buffer) {
      types.push_back(&parameters[i]);
    }
    const int64_t dimension = differing_dim(types, *inputs[of_buffer.front()].buffer);
    if (dimension < 0 || dimension >= 64) {
      continue;
    }
    for (const size_t i : of_buffer) {
      found[i] |= uint64_t{1} << dimension;
    }
  }
}

} // namespace

std::vector<uint64_t> varying_dimensions(
    const std::vector<ValueType>& parameters, const std::vector<Input>& inputs, bool trains) {
  std::vector<uint64_t> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& buffer = *inputs[i].buffer;
    found.push_back(
        trains && buffer.is_from_cpu() ? 0 : varying_result_dims(parameters[i], buffer));
  }
  add_differing_dims(parameters, inputs, found);
  return found;
}

uint64_t varying_outside(uint64_t varies, const ValueType& result, const Buffer& buffer) {
  const auto outside = buffer.shape().sizes();
  if (varies == 0 || outside == c10::IntArrayRef(result.sizes)) {
    return varies;
  }
  const auto several =
      std::find_if(outside.begin(), outside.end(), [](int64_t extent) { return extent > 1; });
  return several == outside.end() || several - outside.begin() >= 64
             ? 0
             : uint64_t{1} << (several - outside.begin());
}

} // namespace ftm
