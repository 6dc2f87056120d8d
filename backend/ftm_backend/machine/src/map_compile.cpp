// Translates the operations of a map body in an image to operations on SSA values.
#include "map_compile.h"

#include <cstring>
#include <map>
#include <tuple>

#include "half.h"
#include "image_sections.h"
#include "map_code.h"
#include "native/translate.h"
#include "program.h"

namespace ftm {
namespace {

class BodyCompiler {
 public:
  BodyCompiler(
      const Program& program, const ImageMaps& image, const isa::Map& map, MapPlan& plan,
      bool along)
      : program_(program),
        image_(image),
        map_(map),
        plan_(plan),
        along_(along),
        table_(kernels()),
        results_(map.ops, -1),
        inputs_(map.inputs, -1) {}

  ValueCode compile() {
    for (uint32_t i = 0; i < map_.ops; ++i) {
      const isa::MapOp& in = image_.ops[map_.first_op + i];
      const int v = compile_op(in);
      require(
          in.result < kTypes && code_.values[v].type == Type(in.result),
          "a result of another type");
      results_[i] = v;
    }
    for (uint32_t i = 0; i < map_.outputs; ++i) {
      const isa::MapOutput& out = image_.outputs[map_.first_output + i];
      int v = read(out.source);
      require(code_.values[v].type == Type(out.type), "a map output's type");
      if (code_.values[v].spot.place == Place::Input && lost(code_.values[v].spot.index, i))
        v = retyped(v, code_.values[v].type);
      code_.values[v].last = kAtEnd;
      code_.results.push_back(v);
    }
    return std::move(code_);
  }

 private:
  int value(Type type, Spot spot) {
    code_.values.push_back({type, spot, -1, -1});
    return int(code_.values.size()) - 1;
  }

  int cell(Cell::From from, Type type, uint16_t index, uint64_t bits) {
    auto [at, added] = cells_.try_emplace(std::make_tuple(int(from), int(type), index, bits), -1);
    if (!added) return at->second;
    Cell c{from, strip_type(type), type, index, bits};
    if (from == Cell::From::Bits && is_half(type)) {
      const float f =
          type == Type::F16 ? f16_to_float(uint16_t(bits)) : bf16_to_float(uint16_t(bits));
      c.bits = float_bits(f);
    }
    plan_.cells.push_back(c);
    return at->second = value(type, {Place::Cell, uint16_t(plan_.cells.size() - 1)});
  }

  int input(uint16_t index) {
    require(index < map_.inputs, "an input of a map");
    int& v = inputs_[index];
    if (v >= 0) return v;
    const MapInput& in = plan_.inputs[index];
    if (in.access == isa::FTM_ACCESS_ONE) return v = cell(Cell::From::One, in.type, index, 0);
    if (in.access == isa::FTM_ACCESS_COL && along_)
      return v = cell(Cell::From::Column, in.type, index, 0);
    v = value(in.type, {Place::Input, index});
    if (!is_half(in.type)) return v;
    return v = emit_load_half(in.type, v);
  }

  int read(const isa::Operand& o) {
    require(o.type < kTypes, "an operand's type");
    int v = -1;
    switch (o.kind) {
      case isa::FTM_OPERAND_RESULT:
        require(o.index < results_.size(), "an operation of a map");
        v = results_[o.index];
        break;
      case isa::FTM_OPERAND_INPUT: v = input(o.index); break;
      case isa::FTM_OPERAND_IMMEDIATE:
        require(o.index < image_.immediate_count, "an immediate");
        v = cell(Cell::From::Bits, Type(o.type), o.index, image_.immediates[o.index]);
        break;
      case isa::FTM_OPERAND_SCALAR:
        require(o.index < program_.scalar_types.size(), "a scalar");
        v = cell(Cell::From::Scalar, Type(o.type), o.index, 0);
        break;
      case isa::FTM_OPERAND_REGISTER:
        require(o.index < isa::kScalarRegisters, "a register");
        v = cell(Cell::From::Register, Type(o.type), o.index, 0);
        break;
    }
    require(v >= 0, "an operand that is not computed yet");
    require(code_.values[v].type == Type(o.type), "an operand of another type");
    return v;
  }

  // Whether storing another result may overwrite an input before result `self` has read it.
  bool lost(uint16_t input, uint32_t self) const {
    for (uint32_t k = 0; k < map_.outputs; ++k)
      if (k != self && plan_.outputs[k].scope == isa::FTM_SCOPE_FULL &&
          overlap(program_.tiles[plan_.inputs[input].tile], program_.tiles[plan_.outputs[k].tile]))
        return true;
    return false;
  }

  bool is_cell(int v) const { return v >= 0 && code_.values[v].spot.place == Place::Cell; }

  // Appends an operation. Cells among its sources whose bit is not in `scalars` are expanded.
  int emit(StripOp op, Type type, std::array<int, 3> src, uint8_t scalars) {
    const int at = int(code_.ops.size());
    const int dst = value(type, {Place::Strip, 0});
    code_.values[dst].first = at;
    ValueOp v{op, dst};
    for (int k = 0; k < 3; ++k) {
      v.src[k] = src[k];
      if (src[k] >= 0) code_.values[src[k]].last = at;
    }
    v.scalars = scalars;
    code_.ops.push_back(v);
    return dst;
  }

  int emit(Op op, Type compute, Type result, std::array<int, 3> src) {
    if (const Op kernel = isa::kStrips[int(op)].kernel; kernel != op) {
      std::swap(src[0], src[1]);
      op = kernel;
    }
    const StripFn* variants = table_.strip[int(op)][int(compute)];
    require(variants[0] != nullptr, "an operation on a type that it does not take");
    uint8_t cells = 0;
    for (int k = 0; k < 3; ++k)
      if (is_cell(src[k])) cells |= uint8_t(1 << k);
    // Use the variant that reads most of the cells as single elements.
    uint8_t best = 0;
    for (uint8_t mask = 1; mask < 8; ++mask)
      if ((mask & ~cells) == 0 && variants[mask] &&
          __builtin_popcount(mask) > __builtin_popcount(best))
        best = mask;
    StripOp s{};
    s.kind = Kind::Strip;
    s.op = op;
    s.type = compute;
    s.fn = variants[best];
    return emit(s, result, src, best);
  }

  // to: a half for a float32 that is rounded to its values.
  int emit_convert(Type from, Type to, int src) {
    StripOp s{};
    s.kind = Kind::Convert;
    s.type = to;
    s.from = from;
    s.fn = table_.convert[int(from)][int(to)];
    require(s.fn != nullptr, "a conversion");
    return emit(s, to, {src, -1, -1}, 0);
  }

  int emit_load_half(Type half, int src) {
    StripOp s{};
    s.kind = Kind::LoadHalf;
    s.type = half;
    s.fn = table_.load_half[int(half) - int(Type::F16)];
    return emit(s, half, {src, -1, -1}, 0);
  }

  int convert(int v, Type from, Type to) {
    if (from == to) return v;
    const Type s = strip_type(from), t = strip_type(to);
    // Widening a half is free: it is held as float32.
    int r = s == t ? v : emit_convert(s, t, v);
    if (is_half(to)) r = emit_convert(Type::F32, to, r);
    if (r != v) {
      code_.values[r].type = to;
      return r;
    }
    return retyped(v, to);
  }

  // Returns the same elements under another type.
  int retyped(int v, Type type) {
    StripOp s{};
    s.kind = Kind::Strip;
    s.op = Op::Mov;
    s.type = strip_type(type);
    s.fn = table_.strip[int(Op::Mov)][int(strip_type(type))][0];
    return emit(s, type, {v, -1, -1}, 0);
  }

  int bitcast(int v, Type from, Type to) {
    require(type_bytes(from) == type_bytes(to), "a bit cast between sizes");
    if (from == to) return v;
    if (is_half(from)) {
      StripOp s{};
      s.kind = Kind::StoreHalf;
      s.type = from;
      s.fn = table_.store_half[int(from) - int(Type::F16)];
      v = emit(s, Type::I16, {v, -1, -1}, 0);
      from = Type::I16;
    }
    if (is_half(to)) return emit_load_half(to, v);
    return from == to ? v : retyped(v, to);
  }

  // Returns the value that it computes.
  int compile_op(const isa::MapOp& in) {
    line_ = in.line;
    require(in.type < kTypes && in.from_ < kTypes, "a map operation's type");
    const Type type = Type(in.type);
    const Op op = in.opcode < isa::FTM_OP_COUNT ? isa::kStripOf[in.opcode] : Op::Count;
    if (op == Op::Mov) return read(in.src[0]);
    if (op != Op::Count) {
      const isa::StripFacts& facts = isa::kStrips[int(op)];
      std::array<int, 3> src{-1, -1, -1};
      for (int k = 0; k < facts.operands; ++k) {
        src[k] = read(in.src[k]);
        const Type wanted = facts.choosing && k == 0 ? Type::B1 : type;
        require(code_.values[src[k]].type == wanted, "an operand of another type");
      }
      const Type result = facts.mask ? Type::B1 : type;
      int v = emit(op, strip_type(type), result, src);
      if (is_half(type) && !facts.exact) v = emit_convert(Type::F32, type, v);
      return v;
    }
    StripOp s{};
    s.line = in.line;
    switch (in.opcode) {
      case isa::FTM_OP_VCVT:
      case isa::FTM_OP_VBITC: {
        const int v = read(in.src[0]);
        require(code_.values[v].type == Type(in.from_), "an operand of another type");
        const bool convert_it = in.opcode == isa::FTM_OP_VCVT;
        return convert_it ? convert(v, Type(in.from_), type) : bitcast(v, Type(in.from_), type);
      }
      case isa::FTM_OP_VIDX: {
        s.kind = Kind::Index;
        const std::array<int, 3> src{read(in.src[0]), read(in.src[1]), read(in.src[2])};
        for (int v : src)
          require(is_cell(v) && code_.values[v].type == Type::I64, "an operand of VIDX");
        plan_.positions = true;
        return emit(s, Type::I64, src, 7);
      }
      case isa::FTM_OP_VPHILOX: {
        s.kind = Kind::Philox;
        const std::array<int, 3> src{read(in.src[0]), read(in.src[1]), read(in.src[2])};
        for (int v : src) require(code_.values[v].type == Type::I64, "an operand of VPHILOX");
        const bool same = is_cell(src[1]) && is_cell(src[2]);
        return emit(s, Type::I32, src, same ? 6 : 0);
      }
      case isa::FTM_OP_VGA: {
        require(in.buffer >= 0 && size_t(in.buffer) < program_.buffers.size(), "a buffer operand");
        require(same_elements(program_.buffers[in.buffer].type, type), "a gather of another type");
        require(in.address.scalar < 0 && in.address.reg < isa::kScalarRegisters, "an address");
        s.kind = Kind::Gather;
        s.type = type;
        s.buffer = in.buffer;
        s.address = in.address.immediate;
        s.address_register = in.address.reg >= 0 ? in.address.reg : program_.zero_register();
        const int index = read(in.src[0]);
        require(code_.values[index].type == Type::I64, "an index");
        return emit(s, type, {index, -1, -1}, 0);
      }
    }
    require(false, "an opcode in a map");
    return -1;
  }

  const Program& program_;
  const ImageMaps& image_;
  const isa::Map& map_;
  MapPlan& plan_;
  const bool along_;
  const KernelTable& table_;
  ValueCode code_;
  std::vector<int> results_, inputs_;
  std::map<std::tuple<int, int, uint16_t, uint64_t>, int> cells_;
  uint32_t line_ = 0;
};

void read_operands(
    const Program& program, const ImageMaps& image, const isa::Map& map, MapPlan& plan) {
  const auto slot = [&](const isa::Value& v, int64_t& immediate, int32_t& reg) {
    require(v.scalar < 0 && v.reg < isa::kScalarRegisters, "a slot");
    immediate = v.immediate;
    reg = v.reg >= 0 ? v.reg : program.zero_register();
  };
  plan.outputs.reserve(map.outputs);
  plan.inputs.reserve(map.inputs);
  for (uint32_t i = 0; i < map.outputs; ++i) {
    const isa::MapOutput& out = image.outputs[map.first_output + i];
    require(out.tile >= 0 && size_t(out.tile) < program.tiles.size(), "a map's tile");
    require(
        out.scope <= isa::FTM_SCOPE_A && out.reduction <= isa::FTM_REDUCE_OR &&
            (out.scope == isa::FTM_SCOPE_FULL) == (out.reduction == isa::FTM_REDUCE_NONE),
        "a reduction");
    MapOutput o{};
    o.tile = out.tile;
    o.scope = out.scope;
    o.reduction = out.reduction ? Reduction(out.reduction - 1) : Reduction::Sum;
    o.accumulate = out.accumulate != 0;
    o.type = program.tiles[out.tile].type;
    require(o.type == Type(out.type), "a map output's type");
    slot(out.slot, o.slot_immediate, o.slot_register);
    plan.outputs.push_back(o);
  }
  for (uint32_t i = 0; i < map.inputs; ++i) {
    const isa::MapInput& in = image.inputs[map.first_input + i];
    require(
        in.tile >= 0 && size_t(in.tile) < program.tiles.size() && in.access <= isa::FTM_ACCESS_ONE,
        "a map's tile");
    MapInput m{};
    m.tile = in.tile;
    m.access = in.access;
    m.type = program.tiles[in.tile].type;
    require(m.type == Type(in.type), "a map input's type");
    slot(in.slot, m.slot_immediate, m.slot_register);
    for (const MapOutput& o : plan.outputs)
      m.overwritten |= overlap(program.tiles[m.tile], program.tiles[o.tile]);
    plan.inputs.push_back(m);
  }
}

} // namespace

std::unique_ptr<MapPlan> compile_map(
    const Program& program, const ImageMaps& image, const isa::Map& map,
    std::vector<uint8_t>* code) {
  const auto inside = [](uint32_t first, uint32_t count, uint64_t all) {
    return first <= all && count <= all - first;
  };
  require(
      inside(map.first_input, map.inputs, image.input_count) &&
          inside(map.first_output, map.outputs, image.output_count) &&
          inside(map.first_op, map.ops, image.op_count) && map.ops <= 65536 && map.inputs < 4096 &&
          map.outputs < 4096,
      "a map");
  auto plan = std::make_unique<MapPlan>();
  plan->line = map.line;
  read_operands(program, image, map, *plan);
  plan->flat = true;
  for (const MapInput& in : plan->inputs)
    plan->flat &= in.access == isa::FTM_ACCESS_FULL || in.access == isa::FTM_ACCESS_ONE;
  for (const MapOutput& out : plan->outputs)
    plan->flat &= out.scope == isa::FTM_SCOPE_FULL || out.scope == isa::FTM_SCOPE_A;
  plan->any_cut = true;
  for (const MapOutput& out : plan->outputs)
    plan->any_cut &= out.scope == isa::FTM_SCOPE_FULL || out.scope == isa::FTM_SCOPE_R;
  ValueCode along = BodyCompiler(program, image, map, *plan, true).compile();
  ValueCode across = BodyCompiler(program, image, map, *plan, false).compile();
  require(plan->cells.size() < 65536, "a map");
  allocate(program, *plan, along, across);
  if (code) {
    const MapBody& body = plan->strips;
    auto native = std::make_unique<MapBody>();
    native->along = native::translate(*plan, body.along, true, *code);
    native->across = native::translate(*plan, body.across, false, *code);
    plan->native = std::move(native);
  }
  return plan;
}

} // namespace ftm
