#include "image_declarations.h"

#include <algorithm>

#include "map_compile.h"
#include "native/translate.h"
#include "shared_text.h"

namespace ftm {

Declarations::Declarations(const void* data, size_t size)
    : Sections(data, size), program_(std::make_unique<Program>()) {
  read_texts();
  read_signature();
  read_tiles();
  read_functions();
  read_maps();
}

void Declarations::read_texts() {
  program_->text = shared_text({text_.data, size_t(text_.count)});
  program_->name = string(header_.name);
}

void Declarations::read_signature() {
  Program& p = *program_;
  p.inputs = int32_t(header_.inputs);
  p.outputs = int32_t(header_.outputs);
  p.arena_bytes = int64_t(header_.arena_bytes);
  require(
      header_.inputs <= buffers_.count && header_.outputs <= buffers_.count - header_.inputs,
      "signature");
  require(p.arena_bytes >= 0 && p.arena_bytes < kMostBytes, "arena");
  p.constants.assign(constants_.begin(), constants_.end());
  p.buffers.reserve(buffers_.count);
  for (uint64_t i = 0; i < buffers_.count; ++i) {
    const isa::Buffer& b = buffers_[i];
    BufferDecl d{};
    require(b.type < kTypes, "a buffer's type");
    d.name = string(b.name);
    d.kind = b.kind;
    d.type = Type(b.type);
    d.alias = b.alias;
    require(b.elements < uint64_t(kMostBytes) && b.bytes < uint64_t(kMostBytes), "a buffer's size");
    d.elements = int64_t(b.elements);
    d.bytes = int64_t(b.bytes);
    d.offset = int64_t(b.offset);
    require(d.elements * type_bytes(d.type) == d.bytes, "a buffer's size");
    require(
        b.first_dim <= shapes_.count && b.ndim <= shapes_.count - b.first_dim, "a buffer's shape");
    int64_t product = 1;
    d.shape.reserve(b.ndim);
    for (uint32_t k = 0; k < b.ndim; ++k) {
      const int64_t extent = shapes_[b.first_dim + k];
      require(extent >= 0 && (extent == 0 || product <= kMostBytes / extent), "a buffer's shape");
      product *= extent;
      d.shape.push_back(extent);
    }
    require(product == d.elements || b.kind == isa::FTM_BUFFER_PARAMETER, "a buffer's shape");
    const uint8_t wanted = i < header_.inputs                     ? isa::FTM_BUFFER_INPUT
                           : i < header_.inputs + header_.outputs ? isa::FTM_BUFFER_OUTPUT
                                                                  : b.kind;
    require(b.kind == wanted && b.kind <= isa::FTM_BUFFER_PARAMETER, "a buffer's kind");
    if (i >= header_.inputs + header_.outputs) {
      const int64_t room = b.kind == isa::FTM_BUFFER_CONST   ? int64_t(constants_.count)
                           : b.kind == isa::FTM_BUFFER_ARENA ? p.arena_bytes
                           : b.kind == isa::FTM_BUFFER_GSM   ? kMostBytes
                           : b.kind == isa::FTM_BUFFER_PARAMETER
                               ? type_bytes(d.type) // the offset is a flag: whether it is written
                               : -1;
      require(
          d.offset >= 0 && d.offset <= room && d.bytes <= room - d.offset &&
              (b.kind == isa::FTM_BUFFER_PARAMETER || d.offset % type_bytes(d.type) == 0),
          "a buffer's place");
      require(b.kind != isa::FTM_BUFFER_PARAMETER || b.elements == 0, "a parameter's size");
      if (b.kind == isa::FTM_BUFFER_GSM)
        p.space_bytes[3] = std::max(p.space_bytes[3], d.offset + d.bytes);
    }
    if (b.kind == isa::FTM_BUFFER_OUTPUT && b.alias != -1)
      require(
          b.alias >= 0 && b.alias < p.inputs && p.buffers[size_t(b.alias)].bytes == d.bytes,
          "an alias");
    p.buffers.push_back(std::move(d));
  }
  require(header_.scalars <= scalars_.count, "signature");
  p.scalars = int32_t(header_.scalars);
  for (const isa::Scalar& s : scalars_) {
    require(
        s.type < kTypes && (Type(s.type) == Type::F64 || Type(s.type) == Type::I64),
        "a scalar's type");
    p.scalar_names.push_back(string(s.name));
    p.scalar_types.push_back(Type(s.type));
  }
}

void Declarations::read_tiles() {
  program_->tiles.reserve(tiles_.count);
  for (const isa::Tile& t : tiles_) {
    require(
        t.type < kTypes && t.space >= 1 && t.space <= 3 && t.depth >= 1 && t.slot_bytes > 0,
        "a tile");
    require(
        t.offset < uint64_t(kMostBytes) && t.slot_bytes < uint64_t(kMostBytes) / 65536 &&
            t.offset % isa::kSlotAlignment == 0 && t.slot_bytes % isa::kSlotAlignment == 0 &&
            t.rows < (1u << 31) && t.columns < (1u << 31),
        "a tile's place");
    TileDecl d{};
    d.name = string(t.name);
    d.type = Type(t.type);
    d.space = t.space;
    d.depth = t.depth;
    d.rows = int32_t(t.rows);
    d.columns = int32_t(t.columns);
    d.offset = int64_t(t.offset);
    d.slot_bytes = int64_t(t.slot_bytes);
    require(
        uint64_t(t.rows) * t.columns < uint64_t(kMostBytes) / 8 &&
            int64_t(t.rows) * t.columns * type_bytes(d.type) <= d.slot_bytes,
        "a tile's size");
    d.first_slot = program_->slots;
    require(program_->slots < (1 << 26), "too many tiles");
    program_->slots += d.depth;
    int64_t& space = program_->space_bytes[t.space];
    space = std::max(space, d.offset + d.slot_bytes * d.depth);
    program_->tiles.push_back(std::move(d));
  }
}

void Declarations::read_functions() {
  for (const isa::Function& f : functions_) {
    require(
        f.count > 0 && f.first <= instructions_.count && f.count <= instructions_.count - f.first,
        "a function");
    const isa::Instruction& last = instructions_[f.first + f.count - 1];
    require(last.opcode == isa::FTM_OP_RET && last.predicate < 0, "a function's end");
    require(
        f.first_buffer <= buffers_.count && f.buffers <= buffers_.count - f.first_buffer &&
            f.first_scalar <= scalars_.count && f.scalars <= scalars_.count - f.first_scalar,
        "a function's parameters");
    for (uint32_t k = 0; k < f.buffers; ++k)
      require(
          buffers_[f.first_buffer + k].kind == isa::FTM_BUFFER_PARAMETER,
          "a function's parameters");
    require(f.scalars == 0 || f.first_scalar >= header_.scalars, "a function's parameters");
    program_->functions.push_back({string(f.name), f.first, f.count});
  }
  require(header_.main < functions_.count, "no main");
  const isa::Function& main = functions_[header_.main];
  require(main.buffers == 0 && main.scalars == 0, "parameters of main");
  program_->entry = main.first;
}

void Declarations::read_maps() {
  const ImageMaps image{map_inputs_.data, map_inputs_.count, map_outputs_.data, map_outputs_.count,
                        map_ops_.data,    map_ops_.count,    immediates_.data,  immediates_.count};
  std::vector<uint8_t> code;
  const bool translate = native::enabled();
  for (const isa::Map& m : maps_) {
    program_->maps.push_back(compile_map(*program_, image, m, translate ? &code : nullptr));
    const MapBody& body = program_->maps.back()->strips;
    program_->strip_bytes = std::max({program_->strip_bytes, body.along.bytes, body.across.bytes});
  }
  if (!code.empty() && !program_->code.fill(code))
    for (auto& plan : program_->maps) plan->native.reset();
}

Source Declarations::source(const isa::Value& v) const {
  Source s{v.immediate, program_->zero_register()};
  if (v.scalar >= 0) {
    require(
        v.reg < 0 && uint64_t(v.scalar) < scalars_.count &&
            program_->scalar_types[v.scalar] == Type::I64,
        "a scalar operand");
    s.reg = 64 + v.scalar;
  } else if (v.reg >= 0) {
    require(v.reg < isa::kScalarRegisters, "a register");
    s.reg = v.reg;
  }
  return s;
}

TileRef Declarations::tile(int32_t index, const isa::Value& slot) const {
  require(index >= 0 && uint64_t(index) < tiles_.count, "a tile operand");
  return {index, source(slot)};
}

} // namespace ftm
