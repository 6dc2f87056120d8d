// Translates map bodies to the host's vector code.
#pragma once

#include <cstdint>
#include <vector>

#include "map_plan.h"

namespace ftm::native {

// Whether map bodies are translated: on x86-64 with AVX-512, unless FTM_JIT=0.
bool enabled();

// Returns `body` with each run of operations that have vector code replaced by one operation of
// Kind::Native, whose address is the offset of its function in `code`. What has no vector code,
// such as a gather, stays between two functions as a step on strips. along: strips are cut along a
// row, so that the last function can also reduce rows.
StripCode translate(
    const MapPlan& plan, const StripCode& body, bool along, std::vector<uint8_t>& code);

} // namespace ftm::native
