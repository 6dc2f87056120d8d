// The sections of a program image (isa_gen.h) as records. References between records are not
// checked yet.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "isa_gen.h"

namespace ftm {

[[noreturn]] void refuse(const char* what);

// Rejects an image as damaged unless `condition` holds; `what` names the part.
inline void require(bool condition, const char* what) {
  if (!condition) refuse(what);
}

// A section: records of one type, in the image.
template <class T>
struct Records {
  const T* data = nullptr;
  uint64_t count = 0;
  const T& operator[](uint64_t i) const { return data[i]; }
  const T* begin() const { return data; }
  const T* end() const { return data + count; }
};

class Sections {
 protected:
  // Throws Error unless `data` is a complete image of this version.
  Sections(const void* data, size_t size);

  std::string string(uint32_t at) const;

  isa::Header header_;
  Records<isa::Buffer> buffers_;
  Records<isa::Scalar> scalars_;
  Records<int64_t> shapes_;
  Records<isa::Tile> tiles_;
  Records<isa::Function> functions_;
  Records<isa::Instruction> instructions_;
  Records<isa::Argument> arguments_;
  Records<isa::Dim> dims_;
  Records<isa::Map> maps_;
  Records<isa::MapInput> map_inputs_;
  Records<isa::MapOutput> map_outputs_;
  Records<isa::MapOp> map_ops_;
  Records<uint64_t> immediates_;
  Records<char> strings_;
  Records<uint8_t> constants_;
  Records<char> text_;
  Records<int64_t> call_ops_;

 private:
  const uint8_t* base() const { return reinterpret_cast<const uint8_t*>(bytes_.data()); }
  template <class T> Records<T> section(int index) const;

  std::vector<uint64_t> bytes_;
  size_t size_;
  isa::Section directory_[isa::FTM_SECTIONS];
};

} // namespace ftm
