#include "image_sections.h"

#include <cstring>

#include "program.h"

namespace ftm {

void refuse(const char* what) {
  throw Error(std::string("the program image is damaged: ") + what);
}

template <class T> Records<T> Sections::section(int index) const {
  const isa::Section& s = directory_[index];
  require(
      s.offset % 8 == 0 && s.offset <= size_ && s.count <= (size_ - s.offset) / sizeof(T),
      "a section is cut off");
  return {reinterpret_cast<const T*>(base() + s.offset), s.count};
}

std::string Sections::string(uint32_t at) const {
  require(at < strings_.count, "a name");
  return strings_.data + at;
}

Sections::Sections(const void* data, size_t size) : bytes_(size / 8 + 1), size_(size) {
  // Copied, because sections are read in place and must be aligned.
  std::memcpy(bytes_.data(), data, size);
  if (size_ < sizeof(isa::Header) || std::memcmp(base(), &isa::kMagic, 8) != 0)
    throw Error("not a program image: it does not start with FTMIMAGE");
  std::memcpy(&header_, base(), sizeof header_);
  if (header_.version != isa::kVersion || header_.fingerprint != isa::kFingerprint)
    throw Error(
        "the program image is of another version of the instruction set: assemble it again");
  require(header_.bytes == size_, "its size is not what the header says");
  require(header_.sections == isa::FTM_SECTIONS, "number of sections");
  require(size_ >= sizeof header_ + sizeof directory_, "no section directory");
  std::memcpy(directory_, base() + sizeof header_, sizeof directory_);
  buffers_ = section<isa::Buffer>(isa::FTM_SECTION_BUFFERS);
  scalars_ = section<isa::Scalar>(isa::FTM_SECTION_SCALARS);
  shapes_ = section<int64_t>(isa::FTM_SECTION_SHAPES);
  tiles_ = section<isa::Tile>(isa::FTM_SECTION_TILES);
  functions_ = section<isa::Function>(isa::FTM_SECTION_FUNCTIONS);
  instructions_ = section<isa::Instruction>(isa::FTM_SECTION_INSTRUCTIONS);
  arguments_ = section<isa::Argument>(isa::FTM_SECTION_ARGUMENTS);
  dims_ = section<isa::Dim>(isa::FTM_SECTION_DIMS);
  maps_ = section<isa::Map>(isa::FTM_SECTION_MAPS);
  map_inputs_ = section<isa::MapInput>(isa::FTM_SECTION_MAP_INPUTS);
  map_outputs_ = section<isa::MapOutput>(isa::FTM_SECTION_MAP_OUTPUTS);
  map_ops_ = section<isa::MapOp>(isa::FTM_SECTION_MAP_OPS);
  immediates_ = section<uint64_t>(isa::FTM_SECTION_IMMEDIATES);
  strings_ = section<char>(isa::FTM_SECTION_STRINGS);
  constants_ = section<uint8_t>(isa::FTM_SECTION_CONST_DATA);
  text_ = section<char>(isa::FTM_SECTION_TEXT);
  call_ops_ = section<int64_t>(isa::FTM_SECTION_CALL_OPS);
  require(strings_.count == 0 || strings_[strings_.count - 1] == 0, "strings without an end");
}

} // namespace ftm
