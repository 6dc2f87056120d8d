#include "native/translate.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "native/frame.h"
#include "native/operations.h"
#include "native/body_runs.h"

namespace ftm::native {
namespace {

// General registers of a function. rdi holds its argument.
constexpr int kFrame = rdi, kCount = rsi, kIndex = rax, kEnd = rcx;
constexpr int kStrips = rbx, kCells = rdx;
constexpr int kPointers[] = {r8, r9, r10, r11, r12, r13, r14, r15};
constexpr int kSaved[] = {rbx, r12, r13, r14, r15};
static_assert(sizeof kPointers / sizeof kPointers[0] == kMostPointers);

VectorCode::Combine combine_of(Reduction reduction) {
  return reduction == Reduction::Sum   ? VectorCode::Combine::sum
         : reduction == Reduction::Min ? VectorCode::Combine::least
                                       : VectorCode::Combine::most;
}

class Run {
 public:
  // sums: outputs that the run also reduces.
  Run(const MapPlan& plan, const StripCode& body, size_t first, size_t end,
      const std::vector<uint16_t>& sums)
      : plan_(plan), body_(body), first_(first), end_(end), sums_(sums), c_(lanes()), o_(c_) {}

  // Appends the function to `code` and returns its offset.
  int64_t translate(std::vector<uint8_t>& code) {
    for (size_t i = first_; i < end_; ++i) translate_op(body_.ops[i], i);
    for (uint16_t k : sums_)
      c_.accumulate(combine_of(plan_.outputs[k].reduction), read(body_.results[k], Type::F32));
    for (const Held& h : results_) store(h);
    Encoder e;
    write_function(e);
    while (code.size() % 64) code.push_back(0xcc);
    const int64_t offset = int64_t(code.size());
    code.insert(code.end(), e.code.begin(), e.code.end());
    return offset;
  }

 private:
  int lanes() const {
    int bytes = sums_.empty() ? 1 : 4;
    for (size_t i = first_; i < end_; ++i) bytes = std::max(bytes, widest(body_.ops[i]));
    return 64 / bytes;
  }

  // --- values ---

  struct Held {
    Spot spot;
    int value;
    Type type;
  };

  // The register with the address of an input or output.
  int pointer(Spot spot) {
    const auto at =
        std::find_if(pointers_.begin(), pointers_.end(), [&](Spot s) { return same(s, spot); });
    const size_t number = size_t(at - pointers_.begin());
    if (at == pointers_.end()) pointers_.push_back(spot);
    return kPointers[number];
  }
  Address address(Spot spot, int bytes) {
    if (spot.place == Place::Strip)
      return {kStrips, bytes, int32_t(body_.strips[spot.index] - body_.strips[0])};
    return {pointer(spot), bytes, 0};
  }
  Address cell_address(Spot spot) {
    const Spot column = pointer_of(plan_, body_, spot);
    if (in_memory(column)) return {pointer(column), 0, 0};
    return {kCells, 0, 8 * cell_of(body_, spot)};
  }

  // The value at a spot; `type` is how the operation reads it.
  int read(Spot spot, Type type) {
    if (is_cell(spot)) return as(c_.broadcast(int(type_bytes(type)), cell_address(spot)), type);
    for (const Held& h : held_)
      if (same(h.spot, spot)) return as(h.value, type);
    const int v = c_.load(int(type_bytes(type)), address(spot, int(type_bytes(type))));
    held_.push_back({spot, v, type});
    return as(v, type);
  }
  // Booleans are masks in operations, and bytes elsewhere.
  int as(int v, Type type) {
    if ((type == Type::B1) == c_.is_mask(v)) return v;
    return c_.is_mask(v) ? o_.from_mask(v, Type::U8) : o_.not_zero(Type::U8, v);
  }
  Argument argument(Spot spot, Type type) {
    if (is_cell(spot) && type_bytes(type) >= 4) return Argument(cell_address(spot));
    return read(spot, type);
  }

  // Whether something in memory must hold what operation `at` writes to a strip.
  bool is_needed_outside(Spot spot, size_t at) const {
    for (size_t i = at + 1; i < body_.ops.size(); ++i) {
      const StripOp& op = body_.ops[i];
      if (i >= end_)
        for (const Spot& s : op.src)
          if (same(s, spot)) return true;
      if (same(op.dst, spot)) return false;
    }
    for (size_t k = 0; k < plan_.outputs.size(); ++k)
      if (plan_.outputs[k].scope != isa::FTM_SCOPE_FULL && same(body_.results[k], spot) &&
          std::find(sums_.begin(), sums_.end(), k) == sums_.end())
        return true;
    return false;
  }

  void write(const StripOp& op, size_t at, Type type, int v) {
    held_.erase(
        std::remove_if(
            held_.begin(), held_.end(), [&](const Held& h) { return same(h.spot, op.dst); }),
        held_.end());
    held_.push_back({op.dst, v, type});
    if (in_memory(op.dst)) results_.push_back({op.dst, v, type});
    else if (is_needed_outside(op.dst, at)) store({op.dst, v, type});
  }
  void store(const Held& h) {
    const int bytes = int(type_bytes(h.type));
    const int v = c_.is_mask(h.value) ? o_.from_mask(h.value, Type::U8) : h.value;
    c_.store(bytes, address(h.spot, bytes), v);
  }

  // --- operations ---

  void translate_op(const StripOp& op, size_t at) {
    switch (op.kind) {
      case Kind::LoadHalf:
        return write(op, at, Type::F32, o_.from_half(read(op.src[0], Type::I16), op.type));
      case Kind::StoreHalf:
        return write(op, at, Type::I16, o_.to_half(read(op.src[0], Type::F32), op.type));
      case Kind::Convert: {
        const int a = read(op.src[0], op.from);
        if (is_half(op.type)) return write(op, at, Type::F32, o_.rounded(a, op.type));
        return write(op, at, op.type, convert(a, op.from, op.type));
      }
      default: break;
    }
    const bool compares =
        op.op == Op::Cmpeq || op.op == Op::Cmpne || op.op == Op::Cmplt || op.op == Op::Cmple;
    const int v = op.type == Type::B1 ? on_masks(op) : on_vectors(op);
    write(op, at, compares ? Type::B1 : op.type, v);
  }

  int convert(int a, Type from, Type to) {
    if (from == Type::B1) return to == Type::B1 ? a : o_.from_mask(a, to);
    if (to != Type::B1) return o_.convert(a, from, to);
    if (!is_float(from)) return o_.not_zero(from, a);
    return o_.compare(from, Operations::not_equal, a, o_.number(0, from));
  }

  // VEX opcodes of operations on masks.
  static constexpr int kAnd = 0x41, kAndNot = 0x42, kNot = 0x44, kOr = 0x45, kXnor = 0x46,
                       kXor = 0x47;

  int on_masks(const StripOp& op) {
    const auto in = [&](int k) { return read(op.src[k], Type::B1); };
    const auto not_ = [&](int a) { return c_.mask_op(kNot, a, -1); };
    switch (op.op) {
      case Op::Mov:
      case Op::Abs: return in(0);
      case Op::Not: return not_(in(0));
      case Op::Add:
      case Op::Or:
      case Op::Max:
      case Op::Maxn: return c_.mask_op(kOr, in(0), in(1));
      case Op::Mul:
      case Op::And:
      case Op::Min:
      case Op::Minn: return c_.mask_op(kAnd, in(0), in(1));
      case Op::Xor:
      case Op::Cmpne: return c_.mask_op(kXor, in(0), in(1));
      case Op::Cmpeq: return c_.mask_op(kXnor, in(0), in(1));
      case Op::Cmplt: return c_.mask_op(kAndNot, in(0), in(1)); // not a and b
      case Op::Cmple: return c_.mask_op(kOr, not_(in(0)), in(1));
      default: {
        const int mask = in(0);
        return c_.mask_op(kOr, c_.mask_op(kAnd, mask, in(1)), c_.mask_op(kAndNot, mask, in(2)));
      }
    }
  }

  int on_vectors(const StripOp& op) {
    const Type t = op.type;
    const auto in = [&](int k) { return read(op.src[k], t); };
    const auto arg = [&](int k) { return argument(op.src[k], t); };
    // The operands of a commutative operation, the one in memory last.
    const bool exchange = is_cell(op.src[0]);
    const int x = exchange ? 1 : 0, y = 1 - x;
    switch (op.op) {
      case Op::Mov: return in(0);
      case Op::Add: return o_.add(t, in(x), arg(y));
      case Op::Sub: return o_.subtract(t, in(0), arg(1));
      case Op::Mul: return o_.multiply(t, in(x), arg(y));
      case Op::Div: return o_.divide(t, in(0), arg(1));
      case Op::Fma:
        if (is_float(t)) return o_.fma(t, in(0), in(1), arg(2));
        return o_.add(t, o_.multiply(t, in(x), arg(y)), arg(2));
      case Op::Neg: return o_.negate(t, in(0));
      case Op::Abs: return o_.absolute(t, in(0));
      case Op::Min: return extreme(op, true, false);
      case Op::Max: return extreme(op, false, false);
      case Op::Minn: return extreme(op, true, true);
      case Op::Maxn: return extreme(op, false, true);
      case Op::Copysign: return o_.with_sign(t, in(0), in(1));
      case Op::And: return o_.bit_and(t, in(x), arg(y));
      case Op::Or: return o_.bit_or(t, in(x), arg(y));
      case Op::Xor: return o_.bit_xor(t, in(x), arg(y));
      case Op::Not: return o_.bit_xor(t, in(0), o_.integer(-1, t));
      case Op::Shl: return o_.shift(t, Operations::kLeft, in(0), arg(1));
      case Op::Shr: return o_.shift(t, Operations::kSigned, in(0), arg(1));
      case Op::Shru: return o_.shift(t, Operations::kRight, in(0), arg(1));
      case Op::Cmpeq: return o_.compare(t, Operations::equal, in(0), arg(1));
      case Op::Cmpne: return o_.compare(t, Operations::not_equal, in(0), arg(1));
      case Op::Cmplt: return o_.compare(t, Operations::less, in(0), arg(1));
      case Op::Cmple: return o_.compare(t, Operations::less_equal, in(0), arg(1));
      case Op::Sel: return o_.select(t, read(op.src[0], Type::B1), in(2), arg(1));
      case Op::Sqrt: return o_.root(t, in(0));
      case Op::Rsqrt: return o_.reciprocal(t, o_.root(t, in(0)));
      case Op::Rcp: return o_.reciprocal(t, in(0));
      case Op::Floor: return o_.round(t, in(0), 1);
      case Op::Ceil: return o_.round(t, in(0), 2);
      case Op::Round: return o_.round(t, in(0), 0);
      case Op::Trunc: return o_.round(t, in(0), 3);
      case Op::Exp: return o_.exp(in(0), false);
      case Op::Exp2: return o_.exp(in(0), true);
      case Op::Log: return o_.log(in(0));
      case Op::Tanh: return o_.tanh(in(0));
      default: return o_.erf(in(0));
    }
  }

  int extreme(const StripOp& op, bool least, bool number_wins) {
    const int a = read(op.src[0], op.type), b = read(op.src[1], op.type);
    return o_.extreme(op.type, least, number_wins, a, b, is_number(op.src[1]));
  }

  // Whether a spot is a constant other than NaN.
  bool is_number(Spot spot) const {
    if (!is_cell(spot)) return false;
    const Cell& c = plan_.cells[cell_of(body_, spot)];
    if (c.from != Cell::From::Bits) return false;
    double x = 0;
    float narrow = 0;
    std::memcpy(&x, &c.bits, 8);
    std::memcpy(&narrow, &c.bits, 4);
    if (c.type == Type::F32) x = double(narrow);
    return x == x;
  }

  // --- the function ---

  // Runs groups of `copies` passes from kIndex on, as long as whole groups are left.
  void write_loop(Encoder& e, int copies) const {
    const int elements = c_.lanes() * copies;
    e.move(kEnd, kCount);
    e.and_immediate(kEnd, -elements);
    e.compare(kIndex, kEnd);
    const size_t skip = e.branch(Encoder::not_below);
    const size_t loop = e.code.size();
    for (int copy = 0; copy < copies; ++copy) c_.emit(e, false, copy);
    e.add_immediate(kIndex, elements);
    e.compare(kIndex, kEnd);
    e.branch(Encoder::below, loop);
    e.land(skip);
  }

  void write_function(Encoder& e) {
    // The passes are encoded twice. The first time counts the slots of the stack.
    Encoder measure;
    const int slots = std::max(c_.emit(measure, false), c_.emit(measure, true));

    e.push(rbp);
    e.move(rbp, rsp);
    for (int r : kSaved) e.push(r);
    e.and_immediate(rsp, -64);
    if (slots) e.subtract_immediate(rsp, 64 * slots);
    const auto table = [](Place place) { return Address{kFrame, 0, 8 * int(place)}; };
    for (size_t k = 0; k < pointers_.size(); ++k) {
      e.load(kPointers[k], table(pointers_[k].place));
      e.load(kPointers[k], {kPointers[k], 0, 8 * pointers_[k].index});
    }
    if (!body_.strips.empty()) {
      e.load(kStrips, table(Place::Strip));
      e.load(kStrips, {kStrips, 0, 0});
    }
    if (!plan_.cells.empty()) {
      e.load(kCells, table(Place::Cell));
      e.load(kCells, {kCells, 0, 0});
    }
    const size_t row = e.code.size();
    e.load(kCount, {kFrame, 0, offsetof(Frame, columns)});
    c_.emit_invariants(e);
    e.set(kIndex, 0);
    if (c_.copies() > 1) write_loop(e, c_.copies());
    write_loop(e, 1);
    e.compare(kIndex, kCount);
    const size_t done = e.branch(Encoder::equal);
    e.subtract(kCount, kIndex);
    e.set(kEnd, -1);
    e.low_bits(kEnd, kEnd, kCount);
    e.mask(3, 1, 0, 0x92, 1, 0, {kEnd, {}}); // kmovq k1, rcx
    c_.emit(e, true);
    e.land(done);
    if (!sums_.empty()) {
      e.load(kEnd, {kFrame, 0, offsetof(Frame, lanes)});
      c_.emit_sums(e, kEnd);
      e.add_immediate(kEnd, int32_t(64 * sums_.size()));
      e.store({kFrame, 0, offsetof(Frame, lanes)}, kEnd);
    }
    for (size_t k = 0; k < pointers_.size(); ++k) {
      e.load(kEnd, {kFrame, 0, int32_t(offsetof(Frame, steps)) + 8 * int(pointers_[k].place)});
      e.add(kPointers[k], {kEnd, 0, 8 * pointers_[k].index});
    }
    e.load(kEnd, {kFrame, 0, offsetof(Frame, rows)});
    e.add_immediate(kEnd, -1);
    e.store({kFrame, 0, offsetof(Frame, rows)}, kEnd); // keeps the flags
    e.branch(Encoder::not_equal, row);
    e.zero_upper();
    e.move(rsp, rbp);
    e.add_immediate(rsp, -8 * int(sizeof kSaved / sizeof kSaved[0]));
    for (size_t k = sizeof kSaved / sizeof kSaved[0]; k-- > 0;) e.pop(kSaved[k]);
    e.pop(rbp);
    e.ret();
    e.append_constants(c_.constants());
  }

  const MapPlan& plan_;
  const StripCode& body_;
  const size_t first_, end_;
  const std::vector<uint16_t>& sums_;
  VectorCode c_;
  Operations o_;
  std::vector<Held> held_;
  std::vector<Held> results_; // stored last: an output may be the memory of an input
  std::vector<Spot> pointers_; // inputs and outputs that the run accesses
};

} // namespace

bool enabled() {
  const char* const setting = std::getenv("FTM_JIT");
  return std::strncmp(kernels().name, "avx512", 6) == 0 &&
         !(setting && std::strcmp(setting, "0") == 0);
}

StripCode translate(
    const MapPlan& plan, const StripCode& body, bool along, std::vector<uint8_t>& code) {
  StripCode result = body;
  result.ops.clear();
  const size_t all = body.ops.size();
  size_t i = 0;
  do {
    const size_t end = end_of_run(plan, body, i);
    if (end == i && i < all) {
      result.ops.push_back(body.ops[i++]);
      continue;
    }
    if (along && end == all) result.sums = sums_of(plan, body, i);
    if (end > i || !result.sums.empty()) {
      StripOp op{};
      op.kind = Kind::Native;
      op.address = Run(plan, body, i, end, result.sums).translate(code);
      result.ops.push_back(op);
    }
    i = end;
  } while (i < all);
  result.whole = along && is_whole(plan, body, result);
  drop_splats(plan, result);
  return result;
}

} // namespace ftm::native
