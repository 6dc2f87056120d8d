// Chooses spots for the values of a map body: the tiles themselves where that is safe, else strip
// registers, which values with disjoint live ranges share.
#include <algorithm>

#include "isa_gen.h"
#include "map_code.h"
#include "program.h"

namespace ftm {
namespace {

// Share of the nearest cache for strip registers and the tiles that are streamed.
constexpr int64_t kCacheBytes = 24 * 1024;
constexpr int64_t kLongest = 1024, kShortest = 128;

class Allocator {
 public:
  Allocator(const Program& program, const MapPlan& plan, ValueCode& code)
      : program_(program), plan_(plan), code_(code) {}

  void run(StripCode& out) {
    choose_outputs();
    choose_strips();
    out.ops.reserve(code_.ops.size());
    for (ValueOp& op : code_.ops) {
      op.op.dst = code_.values[op.dst].spot;
      for (int k = 0; k < 3; ++k)
        if (op.src[k] >= 0) op.op.src[k] = operand(op.src[k], op.scalars >> k & 1, out);
      out.ops.push_back(op.op);
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const int value = code_.results[i];
      const bool full = plan_.outputs[i].scope == isa::FTM_SCOPE_FULL;
      out.results.push_back(full ? Spot{} : operand(value, false, out));
      const Spot spot = code_.values[value].spot;
      // Two outputs may have one value.
      if (full && !(spot.place == Place::Output && spot.index == i))
        out.ops.push_back(store(uint16_t(i), value, out));
    }
  }

  const std::vector<int64_t>& widths() const { return widths_; }

 private:
  // Writes a value to the tile of full output i, after all operations.
  StripOp store(uint16_t i, int value, StripCode& out) {
    const MapValue& v = code_.values[value];
    const bool half = is_half(v.type), cell = v.spot.place == Place::Cell && !half;
    StripOp s{};
    s.kind = half ? Kind::StoreHalf : Kind::Strip;
    s.op = Op::Mov;
    s.type = v.type;
    s.fn = half ? kernels().store_half[int(v.type) - int(Type::F16)]
                : kernels().strip[int(Op::Mov)][int(v.type)][cell];
    s.dst = {Place::Output, i};
    s.src[0] = operand(value, cell, out);
    return s;
  }

  // A full result is written directly to its tile, unless an input that is read later may overlap
  // the tile.
  void choose_outputs() {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      MapValue& v = code_.values[code_.results[i]];
      if (plan_.outputs[i].scope != isa::FTM_SCOPE_FULL || v.spot.place != Place::Strip ||
          is_half(v.type))
        continue;
      bool safe = true;
      for (const MapValue& other : code_.values)
        if (other.spot.place == Place::Input && other.last > v.first)
          safe &= !overlap(tile(plan_.inputs[other.spot.index].tile), tile(plan_.outputs[i].tile));
      if (!safe) continue;
      v.spot = {Place::Output, uint16_t(i)};
    }
  }

  const TileDecl& tile(int32_t index) const { return program_.tiles[index]; }

  void choose_strips() {
    std::vector<int> owner; // last operation that needs each register
    for (size_t at = 0; at < code_.ops.size(); ++at) {
      MapValue& v = code_.values[code_.ops[at].dst];
      if (v.spot.place != Place::Strip) continue;
      const int64_t width = type_bytes(strip_type(v.type));
      // The operation that reads a register last may write to it, since all are elementwise.
      size_t r = 0;
      while (r < owner.size() && (owner[r] > int(at) || widths_[r] != width)) ++r;
      if (r == owner.size()) {
        owner.push_back(0);
        widths_.push_back(width);
      }
      owner[r] = std::max(v.last, int(at) + 1);
      v.spot.index = uint16_t(r);
    }
  }

  Spot operand(int value, bool scalar, StripCode& out) {
    const Spot spot = code_.values[value].spot;
    if (spot.place != Place::Cell || scalar) return spot;
    const auto at = std::find(out.splats.begin(), out.splats.end(), spot.index);
    const size_t number = size_t(at - out.splats.begin());
    if (at == out.splats.end()) out.splats.push_back(spot.index);
    return {Place::Splat, uint16_t(number)};
  }

  const Program& program_;
  const MapPlan& plan_;
  ValueCode& code_;
  std::vector<int64_t> widths_; // bytes per element of each strip register
};

void lay_out(const MapPlan& plan, StripCode& code, const std::vector<int64_t>& widths) {
  const int64_t length = plan.strip;
  // Not a multiple of 4096 apart, so that strips do not compete for the same cache sets.
  const auto room = [&](int64_t width) { return (length * width + 2 * kSlack + 63) / 64 * 64; };
  int64_t at = 0;
  for (int64_t width : widths) {
    code.strips.push_back(at);
    at += room(width);
  }
  code.stride = room(8);
  code.splat_offset = at;
  at += code.stride * int64_t(code.splats.size());
  code.stage_offset = at;
  at += code.stride * int64_t(plan.inputs.size() + plan.outputs.size());
  code.bytes = at;
}

} // namespace

void allocate(const Program& program, MapPlan& plan, ValueCode& along, ValueCode& across) {
  Allocator first(program, plan, along), second(program, plan, across);
  first.run(plan.strips.along);
  second.run(plan.strips.across);
  int64_t bytes = 0;
  for (const Allocator* a : {&first, &second}) {
    const StripCode& code = a == &first ? plan.strips.along : plan.strips.across;
    int64_t sum = 8 * int64_t(code.splats.size());
    for (int64_t width : a->widths()) sum += width;
    bytes = std::max(bytes, sum);
  }
  for (const MapInput& in : plan.inputs) bytes += type_bytes(in.type);
  for (const MapOutput& out : plan.outputs) bytes += type_bytes(out.type);
  plan.strip = kLongest;
  while (plan.strip > kShortest && plan.strip * bytes > kCacheBytes) plan.strip /= 2;
  lay_out(plan, plan.strips.along, first.widths());
  lay_out(plan, plan.strips.across, second.widths());
}

} // namespace ftm
