// VGA: elements of a DDR buffer by index, in the middle of a map.
#include "checker.h"
#include "core.h"
#include "half.h"

namespace ftm {
namespace {

template <class T>
void gather_as(uint8_t* to, const uint8_t* from, const int64_t* index, uint64_t first, int64_t n) {
    T* out = reinterpret_cast<T*>(to);
    const T* in = reinterpret_cast<const T*>(from);
    for (int64_t i = 0; i < n; ++i) out[i] = in[first + uint64_t(index[i])];
}

}  // namespace

void gather_elements(Core& core, const StripOp& op, uint8_t* to, const int64_t* index, int64_t n) {
    const BufferDecl& buffer = core.program->buffers[op.buffer];
    const uint64_t first = uint64_t(core.r[op.address_register] + op.address), size = uint64_t(buffer.elements);
    bool outside = false;
    for (int64_t i = 0; i < n; ++i) outside |= first + uint64_t(index[i]) >= size;
    for (int64_t i = 0; outside && i < n; ++i)
        if (first + uint64_t(index[i]) >= size)
            throw Fault("gathers element " + std::to_string(int64_t(first + uint64_t(index[i]))) + " of " + buffer.name +
                        ", which has " + std::to_string(buffer.elements) + " (index out of range)");
    if (core.checker) core.checker->gather_elements(op.buffer, index, int64_t(first), n);
    const uint8_t* from = core.buffers[op.buffer];
    switch (type_bytes(op.type)) {
        case 1: return gather_as<uint8_t>(to, from, index, first, n);
        case 4: return gather_as<uint32_t>(to, from, index, first, n);
        case 8: return gather_as<uint64_t>(to, from, index, first, n);
        default: break;
    }
    float* values = reinterpret_cast<float*>(to);
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
    if (op.type == Type::I16) return gather_as<uint16_t>(to, from, index, first, n);
    for (int64_t i = 0; i < n; ++i) {
        const uint16_t h = halves[first + uint64_t(index[i])];
        values[i] = op.type == Type::F16 ? f16_to_float(h) : bf16_to_float(h);
    }
}

}  // namespace ftm
