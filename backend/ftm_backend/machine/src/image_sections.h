// A program image (isa_gen.h) as the records of its sections; what they say of each other is not yet checked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "isa_gen.h"

namespace ftm {

// Refuses an image as damaged, unless `condition`; `what` says which part of it.
void require(bool condition, const char* what);

template <class T>
struct View {
  const T* data = nullptr;
  uint64_t count = 0;
  const T& operator[](uint64_t i) const { return data[i]; }
  const T* begin() const { return data; }
  const T* end() const { return data + count; }
};

class Sections {
 protected:
  // Throws Error for what is no whole image of this version.
  Sections(const void* data, size_t size);

  std::string string(uint32_t at) const;

  isa::Header header_;
  View<isa::Buffer> buffers_;
  View<isa::Scalar> scalars_;
  View<int64_t> shapes_;
  View<isa::Tile> tiles_;
  View<isa::Function> functions_;
  View<isa::Instruction> instructions_;
  View<isa::Argument> arguments_;
  View<isa::Dim> dims_;
  View<isa::Map> maps_;
  View<isa::MapInput> map_inputs_;
  View<isa::MapOutput> map_outputs_;
  View<isa::MapOp> map_ops_;
  View<uint64_t> immediates_;
  View<char> strings_;
  View<uint8_t> constants_;
  View<char> text_;

 private:
  const uint8_t* base() const { return reinterpret_cast<const uint8_t*>(bytes_.data()); }
  template <class T> View<T> section(int index) const;

  std::vector<uint64_t> bytes_;
  size_t size_;
  isa::Section directory_[isa::FTM_SECTIONS];
};

} // namespace ftm
