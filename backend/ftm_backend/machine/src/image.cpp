// Reads a program image (isa_gen.h) into a Program. Every index is checked here, so that the cores
// need not check.
#include <sstream>

#include "copy_elision.h"
#include "ftm_machine.h"
#include "image_declarations.h"
#include "isa_gen.h"
#include "program.h"

namespace ftm {
namespace {

class Loader : Declarations {
 public:
  Loader(const void* data, size_t size) : Declarations(data, size) {}

  std::unique_ptr<Program> load() {
    read_steps();
    read_call_ops();
    elide_copies(*program_);
    shrink();
    return std::move(program_);
  }

 private:
  // Hundreds of programs stay loaded, so save memory.
  void shrink() {
    Program& p = *program_;
    p.calls.shrink_to_fit();
    p.dmas.shrink_to_fit();
    p.matrices.shrink_to_fit();
    p.windows.shrink_to_fit();
  }

  void read_call_ops() {
    Program& p = *program_;
    p.call_ops.assign(call_ops_.begin(), call_ops_.end());
    for (uint32_t at = p.entry; at < p.steps.size(); ++at) {
      if (p.steps[at].opcode == isa::FTM_OP_CALL) {
        p.first_call = p.steps[at].target;
        break;
      }
    }
  }

  void read_steps() {
    program_->steps.reserve(instructions_.count);
    for (uint64_t f = 0; f < functions_.count; ++f) {
      const Function& function = program_->functions[f];
      require(function.first == program_->steps.size(), "functions out of order");
      for (uint32_t i = 0; i < function.count; ++i)
        read_step(instructions_[function.first + i], function);
    }
    require(program_->steps.size() == instructions_.count, "instructions outside of functions");
  }

  void read_step(const isa::Instruction& in, const Function& function) {
    Program& p = *program_;
    require(in.opcode <= isa::FTM_OP_CWAIT, "an opcode");
    require(in.predicate < isa::kScalarRegisters, "a predicate");
    Step s{};
    s.opcode = in.opcode;
    s.flags = in.flags;
    s.predicate = in.predicate < 0 ? p.one_register() : in.predicate;
    s.negated = in.predicate >= 0 && in.negated;
    s.line = in.line;
    s.a = s.b = {0, p.zero_register()};
    const bool scalar = in.opcode <= isa::FTM_OP_SLDI;
    if (scalar) {
      require(in.dst >= 0 && in.dst < isa::kScalarRegisters, "a destination register");
      s.dst = in.dst;
    }
    switch (in.opcode) {
      case isa::FTM_OP_SCID:
      case isa::FTM_OP_SNC:
      case isa::FTM_OP_RET:
      case isa::FTM_OP_BARRIER:
      case isa::FTM_OP_DWAITALL: break;
      case isa::FTM_OP_SLDI:
        require_buffer(in.buffer);
        require(!is_float(p.buffers[in.buffer].type), "SLDI from a buffer of floats");
        s.target = in.buffer;
        s.a = source(in.v[3]);
        break;
      case isa::FTM_OP_SBR:
        require(
            in.target >= int64_t(function.first) &&
                in.target < int64_t(function.first) + function.count,
            "a branch");
        s.target = in.target;
        break;
      case isa::FTM_OP_CALL:
        s.target = int32_t(p.calls.size());
        p.calls.push_back(call(in));
        break;
      case isa::FTM_OP_MAP:
        require(in.target >= 0 && uint64_t(in.target) < maps_.count, "a map");
        s.target = in.target;
        s.a = source(in.v[0]);
        s.b = source(in.v[1]);
        break;
      case isa::FTM_OP_DLD:
      case isa::FTM_OP_DLB:
      case isa::FTM_OP_DST:
      case isa::FTM_OP_DGA:
      case isa::FTM_OP_DSC:
        s.target = int32_t(p.dmas.size());
        p.dmas.push_back(dma(in));
        break;
      case isa::FTM_OP_DCP:
      case isa::FTM_OP_TRANS:
      case isa::FTM_OP_MM:
      case isa::FTM_OP_DWAIT:
      case isa::FTM_OP_SCAN:
      case isa::FTM_OP_SORT:
      case isa::FTM_OP_MERGE:
        s.target = int32_t(p.matrices.size());
        p.matrices.push_back(matrix(in));
        break;
      case isa::FTM_OP_MMW:
      case isa::FTM_OP_DCW:
      case isa::FTM_OP_FOLD:
        s.target = int32_t(p.windows.size());
        p.windows.push_back({matrix(in), in.row_dims, dims(in)});
        require(
            in.opcode != isa::FTM_OP_FOLD ||
                p.windows.back().dims.size() == size_t(3) * in.row_dims,
            "dimensions of a fold");
        break;
      case isa::FTM_OP_CSTART:
        s.target = int32_t(p.collectives.size());
        p.collectives.push_back(collective(in));
        break;
      default: s.a = source(in.v[0]); s.b = source(in.v[1]);
    }
    p.steps.push_back(s);
  }

  // v: elements of the target, elements of the source, number of the call, offset of the target.
  CollectiveOperands collective(const isa::Instruction& in) const {
    require_buffer(in.buffer);
    require(writable(in.buffer), "a collective on an input or a constant");
    require(in.first_dim < arguments_.count, "the source of a collective");
    const isa::Argument& from = arguments_[in.first_dim];
    require_buffer(from.buffer);
    require(
        program_->buffers[size_t(from.buffer)].type == program_->buffers[size_t(in.buffer)].type,
        "a collective on two types");
    const auto kind = int32_t(in.flags >> isa::kCollectiveBit);
    require(kind <= FTM_RECV, "the kind of a collective");
    return {
        kind,
        reduction(in.flags & ((1u << isa::kCollectiveBit) - 1)),
        in.buffer,
        from.buffer,
        source(in.v[3]),
        source(in.v[0]),
        source(from.value),
        source(in.v[1]),
        source(in.v[2])};
  }

  static int32_t reduction(uint32_t flags) {
    switch (flags) {
      case 0: return FTM_REDUCTION_NONE;
      case isa::FTM_FLAG_ADD: return FTM_REDUCTION_ADD;
      case isa::FTM_FLAG_MUL: return FTM_REDUCTION_MUL;
      case isa::FTM_FLAG_MIN: return FTM_REDUCTION_MIN;
      case isa::FTM_FLAG_MAX: return FTM_REDUCTION_MAX;
      case isa::FTM_FLAG_AVG: return FTM_REDUCTION_AVG;
      default: require(false, "the reduction of a collective"); return 0;
    }
  }

  void require_buffer(int32_t index) const {
    require(index >= 0 && uint64_t(index) < buffers_.count, "a buffer operand");
  }

  bool writable(int32_t index) const {
    const BufferDecl& b = program_->buffers[size_t(index)];
    return b.kind == isa::FTM_BUFFER_OUTPUT || b.kind == isa::FTM_BUFFER_ARENA ||
           b.kind == isa::FTM_BUFFER_GSM || (b.kind == isa::FTM_BUFFER_PARAMETER && b.offset);
  }

  Call call(const isa::Instruction& in) const {
    require(in.target >= 0 && uint64_t(in.target) < functions_.count, "a call");
    const isa::Function& callee = functions_[in.target];
    Call c{int32_t(callee.first), {}, {}};
    const uint64_t count = uint64_t(callee.buffers) + callee.scalars;
    require(
        in.first_dim <= arguments_.count && count <= arguments_.count - in.first_dim,
        "arguments of a call");
    for (uint32_t k = 0; k < callee.buffers; ++k) {
      const isa::Argument& argument = arguments_[in.first_dim + k];
      require_buffer(argument.buffer);
      const int32_t parameter = int32_t(callee.first_buffer + k);
      require(
          same_elements(
              program_->buffers[size_t(argument.buffer)].type,
              program_->buffers[size_t(parameter)].type) &&
              (!writable(parameter) || writable(argument.buffer)),
          "an argument of a call");
      c.buffers.push_back({parameter, argument.buffer, source(argument.value)});
    }
    for (uint32_t k = 0; k < callee.scalars; ++k) {
      const isa::Argument& argument = arguments_[in.first_dim + callee.buffers + k];
      const uint32_t parameter = callee.first_scalar + k;
      require(argument.buffer == -1, "an argument of a call");
      const bool number = program_->scalar_types[parameter] == Type::I64;
      c.scalars.push_back(
          {64 + int32_t(parameter), number ? source(argument.value) : real(argument.value)});
    }
    return c;
  }

  // A scalar of type f64 is passed as its bits.
  Source real(const isa::Value& v) const {
    require(
        v.immediate == 0 && v.reg < 0 && v.scalar >= 0 && uint64_t(v.scalar) < scalars_.count &&
            program_->scalar_types[size_t(v.scalar)] == Type::F64,
        "a scalar operand");
    return {0, 64 + v.scalar};
  }

  Dma dma(const isa::Instruction& in) const {
    Dma d{};
    require_buffer(in.buffer);
    d.buffer = in.buffer;
    d.offset = source(in.v[3]);
    const bool writes = in.opcode == isa::FTM_OP_DST || in.opcode == isa::FTM_OP_DSC;
    require(!writes || writable(d.buffer), "a transfer into an input or a constant");
    d.data = tile(in.tile[0], in.v[0]);
    require(
        same_elements(program_->buffers[d.buffer].type, program_->tiles[d.data.tile].type),
        "a transfer between two types");
    if (in.opcode == isa::FTM_OP_DGA || in.opcode == isa::FTM_OP_DSC) {
      d.index = tile(in.tile[1], in.v[1]);
      const Type type = program_->tiles[d.index.tile].type;
      require(type == Type::I64 || type == Type::I32, "an index tile's type");
      d.row_stride = source(in.v[2]);
      require(in.row_dims == 0, "dimensions of a row transfer");
    }
    d.row_dims = in.row_dims;
    d.column_dims = in.column_dims;
    d.dims = dims(in);
    d.border = -1;
    if (in.opcode == isa::FTM_OP_DLB) {
      d.border = int32_t(program_->borders.size());
      program_->borders.push_back(border(in));
    }
    return d;
  }

  // Sizes are bounded, so their products with extents do not overflow.
  Border border(const isa::Instruction& in) const {
    Border found;
    const uint64_t first = uint64_t(in.first_dim) + in.row_dims + in.column_dims;
    found.sides = int32_t(in.sides);
    require(found.sides >= 1 && found.sides <= kMostSides, "a border");
    require(first <= dims_.count && 2 * uint64_t(found.sides) <= dims_.count - first, "a border");
    int64_t stride = 1;
    for (int k = found.sides - 1; k >= 0; --k) {
      const isa::Dim &own = dims_[first + k], &all = dims_[first + in.sides + k];
      for (const isa::Value* v : {&own.extent, &own.stride, &all.extent, &all.stride})
        require(v->reg < 0 && v->scalar < 0 && v->immediate >= 0, "a border");
      found.inside[k] = own.extent.immediate;
      found.before[k] = own.stride.immediate;
      found.whole[k] = all.extent.immediate;
      require(
          found.whole[k] < kMostBytes && found.inside[k] >= 1 && found.before[k] < kMostBytes,
          "a border");
      require(
          found.before[k] + found.inside[k] <= found.whole[k] && all.stride.immediate == stride,
          "a border");
      require(stride <= kMostBytes / found.whole[k], "a border");
      stride *= found.whole[k];
    }
    return found;
  }

  std::vector<DmaDim> dims(const isa::Instruction& in) const {
    std::vector<DmaDim> found;
    const uint32_t count = uint32_t(in.row_dims) + in.column_dims;
    require(
        count <= kMostDims && in.first_dim <= dims_.count && count <= dims_.count - in.first_dim,
        "dimensions");
    found.reserve(count);
    for (uint32_t k = 0; k < count; ++k) {
      const isa::Dim& dim = dims_[in.first_dim + k];
      found.push_back({source(dim.extent), source(dim.stride)});
    }
    return found;
  }

  static bool is_scan(uint16_t flags, Type type) {
    const uint16_t what = flags & ~isa::FTM_FLAG_DOWN;
    return what == isa::FTM_FLAG_ADD || what == isa::FTM_FLAG_MUL || what == isa::FTM_FLAG_MIN ||
           what == isa::FTM_FLAG_MAX || (what == isa::FTM_FLAG_LSE && is_float(type));
  }

  // MM, MMW, MERGE: A, B, C; SCAN: X, carry, Y; DCP, DCW, TRANS, FOLD, SORT: a to b; DWAIT: a.
  Matrix matrix(const isa::Instruction& in) const {
    Matrix m{};
    m.a = tile(in.tile[0], in.v[0]);
    if (in.opcode == isa::FTM_OP_DWAIT) return m;
    m.b = tile(in.tile[1], in.v[1]);
    const Type a = program_->tiles[m.a.tile].type, b = program_->tiles[m.b.tile].type;
    const bool ordered = in.opcode == isa::FTM_OP_SORT || in.opcode == isa::FTM_OP_MERGE;
    require(!ordered || a == Type::I64, "the type of a sort");
    require(
        in.opcode == isa::FTM_OP_SCAN ? b == (is_float(a) ? Type::F64 : Type::I64) : a == b,
        "operands of two types");
    if (in.opcode == isa::FTM_OP_DCP || in.opcode == isa::FTM_OP_DCW) return m;
    if (in.opcode == isa::FTM_OP_TRANS || in.opcode == isa::FTM_OP_SORT) return m;
    if (in.opcode == isa::FTM_OP_FOLD) {
      require(
          a == Type::F32 || a == Type::F64 || a == Type::I32 || a == Type::I64,
          "the type of a fold");
      return m;
    }
    m.c = tile(in.tile[2], in.v[2]);
    const Type c = program_->tiles[m.c.tile].type;
    if (in.opcode != isa::FTM_OP_MM && in.opcode != isa::FTM_OP_MMW) {
      require(c == a, "operands of two types");
      require(in.opcode != isa::FTM_OP_SCAN || is_scan(in.flags, a), "what a scan does");
      return m;
    }
    require(int(c) == isa::kAccumulators[int(a)], "types of a product");
    return m;
  }
};

} // namespace

std::unique_ptr<Program> load_image(const void* data, size_t size) {
  return Loader(data, size).load();
}

std::string Program::where(uint32_t step) const {
  std::string in = "?";
  for (const Function& f : functions)
    if (step >= f.first && step < f.first + f.count) in = f.name;
  const uint32_t line = step < steps.size() ? steps[step].line : 0;
  std::string message = name + ", @func " + in + ", line " + std::to_string(line);
  std::istringstream lines(*text);
  std::string shown;
  for (uint32_t k = 0; k < line; ++k)
    if (!std::getline(lines, shown)) return message;
  const size_t first = shown.find_first_not_of(" \t");
  if (first != std::string::npos) message += ": `" + shown.substr(first) + "`";
  return message;
}

} // namespace ftm
