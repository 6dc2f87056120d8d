// Reads the declarations of an image: texts, buffers, tiles, functions and maps. Every index is
// checked. image.cpp reads the instructions.
#pragma once
#include <memory>

#include "image_sections.h"
#include "program.h"

namespace ftm {

constexpr int64_t kMostBytes = int64_t(1) << 46; // MOST_BYTES of image_layout.py

class Declarations : Sections {
 protected:
  // Throws Error for a damaged image.
  Declarations(const void* data, size_t size);

  using Sections::arguments_;
  using Sections::buffers_;
  using Sections::call_ops_;
  using Sections::dims_;
  using Sections::functions_;
  using Sections::instructions_;
  using Sections::maps_;
  using Sections::scalars_;

  // Decode operands of instructions.
  Source source(const isa::Value& v) const;
  TileRef tile(int32_t index, const isa::Value& slot) const;

  std::unique_ptr<Program> program_;

 private:
  void read_texts();
  void read_signature();
  void read_tiles();
  void read_functions();
  void read_maps();
};

} // namespace ftm
