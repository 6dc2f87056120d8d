// Compiles map bodies when a program is loaded.
#pragma once

#include <memory>

#include "isa_gen.h"
#include "map_plan.h"

namespace ftm {

struct Program;

// The sections of an image that describe maps.
struct ImageMaps {
  const isa::MapInput* inputs;
  uint64_t input_count;
  const isa::MapOutput* outputs;
  uint64_t output_count;
  const isa::MapOp* ops;
  uint64_t op_count;
  const uint64_t* immediates;
  uint64_t immediate_count;
};

// program: with signature and tiles. code: where to append the host's code, or null. Throws Error
// if the image is inconsistent.
std::unique_ptr<MapPlan> compile_map(
    const Program& program, const ImageMaps& image, const isa::Map& map,
    std::vector<uint8_t>* code);

} // namespace ftm
