#include "native/vector_code.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ftm::native {
namespace {

constexpr int kSpareMask = 7; // the mask register of reductions
// The most instructions of a pass that is unrolled. In longer ones the loop costs little.
constexpr size_t kShortPass = 16;
constexpr int kLine = 64; // bytes of a line of the cache
// How far ahead loads are requested: the processor's own prefetcher stops at the end of a page. Of
// 512 to 16384 bytes, 8192 and 16384 were best for one row times a matrix in memory.
constexpr int kAhead = 8192;

void move_vector(Encoder& out, int to, int from) {
  out.vector({1, 0, 0, 0x28}, to, 0, {from, {}}, {}); // vmovaps
}

} // namespace

Argument VectorCode::constant(uint64_t bits) {
  const auto [at, added] = constant_at_.try_emplace(bits, int32_t(8 * constants_.size()));
  if (added) constants_.push_back(bits);
  return Argument(Address{kConstants, 0, at->second});
}

VectorCode::Instruction VectorCode::start(
    Form form, Opcode op, int length, const Argument& last) const {
  Instruction in{form, op, length, -1, -1, last.value, -1};
  if (last.value < 0) {
    in.has_memory = in.repeat = true;
    in.memory = last.memory;
  }
  return in;
}

int VectorCode::broadcast(int bytes, const Address& at) {
  const auto key = std::make_pair(bytes, std::make_pair(at.base, at.offset));
  const auto [found, added] = broadcasts_.try_emplace(key, -1);
  if (!added) return found->second;
  const Opcode op{
      2, 1, uint8_t(bytes == 8),
      uint8_t(
          bytes == 1   ? 0x78
          : bytes == 2 ? 0x79
          : bytes == 4 ? 0x58
                       : 0x59)};
  Instruction in = start(Form::plain, op, length(bytes), Argument(at));
  in.repeat = false; // the instruction itself repeats the element
  in.dst = found->second = value(false);
  invariants_.push_back(instructions_.size());
  instructions_.push_back(in);
  return in.dst;
}

int VectorCode::binary(Opcode op, int bytes, int a, const Argument& b, int immediate) {
  Instruction in = start(Form::plain, op, length(bytes), b);
  in.first = a;
  in.immediate = immediate;
  in.dst = value(false);
  instructions_.push_back(in);
  return in.dst;
}

int VectorCode::unary(Opcode op, int bytes, const Argument& a, int immediate, int wider) {
  Instruction in = start(Form::plain, op, length(std::max(bytes, wider)), a);
  in.immediate = immediate;
  in.dst = value(false);
  instructions_.push_back(in);
  return in.dst;
}

int VectorCode::narrow(Opcode op, int bytes, int wider, int a, int immediate) {
  Instruction in = start(Form::narrowing, op, length(std::max(bytes, wider)), a);
  in.immediate = immediate;
  in.dst = value(false);
  instructions_.push_back(in);
  return in.dst;
}

int VectorCode::fma(bool wide, int a, int b, const Argument& c) {
  Instruction in = start(Form::fma, {2, 1, wide, 0}, length(wide ? 8 : 4), c);
  in.first = a;
  in.third = in.last; // -1 if the addend is in memory
  in.last = b;
  in.dst = value(false);
  instructions_.push_back(in);
  return in.dst;
}

int VectorCode::compare(Opcode op, int bytes, int a, const Argument& b, int immediate) {
  Instruction in = start(Form::plain, op, length(bytes), b);
  in.first = a;
  in.immediate = immediate;
  in.dst = value(true);
  instructions_.push_back(in);
  return in.dst;
}

int VectorCode::blend(Opcode op, int bytes, int mask, int a, const Argument& b) {
  const int dst = binary(op, bytes, a, b);
  instructions_.back().mask = mask;
  return dst;
}

int VectorCode::masked(Opcode op, int bytes, int mask, int a, const Argument& b, int immediate) {
  const int dst = a < 0 ? unary(op, bytes, b, immediate) : binary(op, bytes, a, b, immediate);
  Instruction& in = instructions_.back();
  in.mask = mask;
  in.zero = true;
  // The broadcasting instructions repeat the element themselves.
  if (op.map == 2 && (op.code == 0x58 || op.code == 0x59 || op.code == 0x78 || op.code == 0x79))
    in.repeat = false;
  return dst;
}

int VectorCode::look_up(const float (&table)[16], int index) {
  const auto [at, added] = table_at_.try_emplace(table, 0);
  if (added) {
    while (constants_.size() % 8) constants_.push_back(0); // one line of the cache
    at->second = int32_t(8 * constants_.size());
    constants_.resize(constants_.size() + 8);
    std::memcpy(&constants_[constants_.size() - 8], table, sizeof table);
  }
  const Address memory{kConstants, 0, at->second};
  const int dst = binary({2, 1, 0, 0x16}, 4, index, Argument(memory)); // vpermps
  instructions_.back().repeat = false;
  instructions_.back().length = int(sizeof table); // even if there are fewer lanes
  return dst;
}

int VectorCode::mask_op(int code, int a, int b) {
  Instruction in = start(Form::mask, {1, 0, 1, uint8_t(code)}, 0, b < 0 ? a : b);
  if (b >= 0) in.first = a;
  in.dst = value(true);
  instructions_.push_back(in);
  return in.dst;
}

namespace {

// Loads and stores by the bytes of an element.
Opcode move_of(int bytes, bool store) {
  switch (bytes) {
    case 1: return {1, 3, 0, uint8_t(store ? 0x7f : 0x6f)};
    case 2: return {1, 3, 1, uint8_t(store ? 0x7f : 0x6f)};
    case 4: return {1, 0, 0, uint8_t(store ? 0x11 : 0x10)};
    default: return {1, 1, 1, uint8_t(store ? 0x11 : 0x10)};
  }
}

} // namespace

int VectorCode::load(int bytes, const Address& at) {
  Instruction in = start(Form::load, move_of(bytes, false), length(bytes), Argument(at));
  in.repeat = false;
  in.dst = value(false);
  instructions_.push_back(in);
  return in.dst;
}

void VectorCode::store(int bytes, const Address& at, int value) {
  Instruction in = start(Form::store, move_of(bytes, true), length(bytes), Argument(at));
  in.repeat = false;
  in.first = value;
  instructions_.push_back(in);
}

void VectorCode::accumulate(Combine how, int value) {
  const float starts[] = {-0.0f, HUGE_VALF, -HUGE_VALF};
  uint32_t bits = 0;
  std::memcpy(&bits, &starts[int(how)], 4);
  Instruction in = start(Form::accumulate, {}, 64, Argument(value));
  in.immediate = int(accumulations_.size());
  instructions_.push_back(in);
  accumulations_.push_back({how, constant(bits).memory});
}

// to = the combination of both registers: of equal numbers `with`, and NaN if one is NaN. lanes:
// the mask register of the lanes that change; 0: all.
void VectorCode::combine(Encoder& out, Combine how, int to, int with, int lanes) {
  const uint8_t codes[] = {0x58, 0x5d, 0x5f}; // vaddps, vminps, vmaxps
  Modifiers changed;
  changed.mask = lanes;
  if (how != Combine::sum) {
    // vminps and vmaxps return `with` if one is NaN. So lanes where `to` is NaN stay.
    Modifiers is_ordered = changed;
    is_ordered.immediate = 7;
    out.vector({1, 0, 0, 0xc2}, kSpareMask, to, {to, {}}, is_ordered); // vcmpordps
    changed.mask = kSpareMask;
  }
  out.vector({1, 0, 0, codes[int(how)]}, to, to, {with, {}}, changed);
}

bool VectorCode::is_reading() const {
  const auto count = [&](Form form) {
    return std::count_if(instructions_.begin(), instructions_.end(), [&](const Instruction& in) {
      return in.form == form;
    });
  };
  return count(Form::load) > count(Form::store);
}

int VectorCode::copies() const {
  const size_t inside = instructions_.size() - invariants_.size();
  return !accumulations_.empty() || inside <= kShortPass ? kCopies : 1;
}

// --- registers ---

// Assigns registers in one sweep over the instructions. If none is free, the value whose next use
// is farthest away moves to the stack.
class Allocation {
 public:
  Allocation(const VectorCode& code, Encoder& out, bool partial, int copy)
      : code_(code),
        out_(out),
        partial_(partial),
        copy_(copy),
        prefetches_(!partial && code.is_reading()),
        register_(code.values_.size(), -1),
        slot_(code.values_.size(), -1),
        fixed_(code.values_.size()),
        uses_(code.values_.size()) {
    const int fixed = int(code.invariants());
    for (int k = 0; k < fixed; ++k) {
      const int v = code.instructions_[code.invariants_[size_t(k)]].dst;
      register_[size_t(v)] = 31 - k;
      fixed_[size_t(v)] = true;
    }
    const size_t sums = code.accumulations_.size();
    for (int r = code.accumulator(sums, 0); r >= 0; --r) free_[0].push_back(r);
    // 0 means no mask, 1 is the partial one.
    for (int k = sums ? kSpareMask - 1 : 7; k >= 2; --k) free_[1].push_back(k);
  }

  int run() {
    const auto& list = code_.instructions_;
    std::vector<bool> live(list.size());
    for (size_t i = list.size(); i-- > 0;) {
      const auto& in = list[i];
      live[i] =
          in.form == Form::store || in.form == Form::accumulate || !uses_[size_t(in.dst)].empty();
      if (live[i])
        for (int v : {in.first, in.last, in.third, in.mask})
          if (v >= 0) uses_[size_t(v)].push_back(int(i)); // the next use is at the end
    }
    for (size_t i = 0; i < list.size(); ++i)
      if (live[i] && !(list[i].dst >= 0 && fixed_[size_t(list[i].dst)])) emit(list[i], int(i));
    return slots_;
  }

 private:
  using Form = VectorCode::Form;
  using Instruction = VectorCode::Instruction;

  void emit(const Instruction& in, int at) {
    const int operands[] = {in.first, in.last, in.third, in.mask};
    pinned_.clear();
    for (int v : operands)
      if (v >= 0) pinned_.push_back(v);
    for (int v : operands)
      if (v >= 0 && register_[size_t(v)] < 0) reload(v);
    int where[4]; // registers of the operands, which those that end here give up
    for (int k = 0; k < 4; ++k) where[k] = operands[k] < 0 ? -1 : register_[size_t(operands[k])];
    if (in.form == Form::fma) return emit_fma(in, at, where);
    release(operands, at);
    int dst = -1;
    if (in.dst >= 0) dst = take(in.dst);
    Modifiers m;
    m.length = in.length;
    m.immediate = in.immediate;
    m.broadcast = in.repeat;
    m.mask = in.mask < 0 ? 0 : where[3];
    m.zero = in.zero;
    Operand last{where[1], in.memory};
    if (in.has_memory) last = {-1, place(in.memory)};
    switch (in.form) {
      case Form::accumulate: {
        const size_t number = size_t(in.immediate);
        const auto how = code_.accumulations_[number].how;
        const int sum = code_.accumulator(number, copy_);
        return VectorCode::combine(out_, how, sum, where[1], partial_ ? 1 : 0);
      }
      case Form::mask:
        out_.mask(0, 1, in.first >= 0, in.op.code, dst, std::max(where[0], 0), last);
        return;
      case Form::narrowing: out_.vector(in.op, where[1], 0, {dst, {}}, m); return;
      case Form::load:
      case Form::store: {
        Opcode op = in.op;
        const bool store = in.form == Form::store;
        if (!store && prefetches_ && copy_ * in.length % kLine == 0) prefetch(last.memory);
        if (partial_) {
          m.mask = 1;
          m.zero = !store;
        } else if (in.length == 8) { // vmovq
          op = store ? Opcode{1, 1, 1, 0xd6} : Opcode{1, 2, 1, 0x7e};
        }
        out_.vector(op, store ? where[0] : dst, 0, last, m);
        return;
      }
      default: out_.vector(in.op, dst, std::max(where[0], 0), last, m);
    }
  }

  // The destination is one of the three operands. A factor that ends here becomes it (213 form),
  // or else the addend (231 form), or else a copy of a factor.
  void emit_fma(const Instruction& in, int at, const int (&where)[4]) {
    const auto ends = [&](int v) { return v >= 0 && !fixed_[size_t(v)] && last_use(v) == at; };
    int a = where[0], b = where[1];
    Modifiers m;
    m.length = in.length;
    m.broadcast = in.repeat;
    const bool addend = !ends(in.first) && !ends(in.last) && ends(in.third);
    if (!addend && !ends(in.first) && ends(in.last)) std::swap(a, b);
    const bool copy = !addend && !ends(in.first) && !ends(in.last);
    const int operands[] = {in.first, in.last, in.third, -1};
    if (addend) {
      release(operands, at);
      rename(in.dst, where[2]);
      out_.vector({2, 1, in.op.wide, 0xb8}, where[2], a, {b, {}}, m);
      return;
    }
    int dst = a;
    if (copy) {
      dst = take(in.dst); // before the operands are released, so that it is none of them
      Modifiers whole;
      whole.length = in.length;
      out_.vector({1, 0, 0, 0x28}, dst, 0, {a, {}}, whole); // vmovaps
      release(operands, at);
    } else {
      release(operands, at);
      rename(in.dst, dst);
    }
    Operand last{where[2], in.memory};
    if (in.has_memory) last.reg = -1;
    out_.vector({2, 1, in.op.wide, 0xa8}, dst, b, last, m);
  }

  void prefetch(Address at) {
    at.offset += kAhead;
    out_.prefetch(at);
  }

  // The address of this copy's elements.
  Address place(Address at) const {
    at.offset += copy_ * code_.lanes() * at.scale;
    return at;
  }

  int last_use(int v) const { return uses_[size_t(v)].front(); }

  void release(const int (&operands)[4], int at) {
    for (int v : operands) {
      if (v < 0 || fixed_[size_t(v)]) continue;
      auto& uses = uses_[size_t(v)];
      while (uses.size() > 1 && uses.back() <= at) uses.pop_back();
      if (uses.front() > at || register_[size_t(v)] < 0) continue;
      give_up(v);
    }
  }

  void give_up(int v) {
    free_[bank(v)].push_back(register_[size_t(v)]);
    owners(v).erase(std::find(owners(v).begin(), owners(v).end(), v));
    register_[size_t(v)] = -1;
  }

  int bank(int v) const { return code_.values_[size_t(v)].mask; }
  std::vector<int>& owners(int v) { return owners_[bank(v)]; }

  // Gives v a certain register, which is free.
  void rename(int v, int r) {
    auto& free = free_[bank(v)];
    free.erase(std::find(free.begin(), free.end(), r));
    register_[size_t(v)] = r;
    owners(v).push_back(v);
  }

  int take(int v) {
    auto& free = free_[bank(v)];
    if (free.empty()) spill(bank(v));
    const int r = free.back();
    free.pop_back();
    register_[size_t(v)] = r;
    owners(v).push_back(v);
    return r;
  }

  void spill(int bank) {
    int victim = -1, farthest = -1;
    for (int v : owners_[bank]) {
      if (std::find(pinned_.begin(), pinned_.end(), v) != pinned_.end()) continue;
      const int next = uses_[size_t(v)].back();
      if (next > farthest) victim = v, farthest = next;
    }
    auto& list = owners_[bank];
    list.erase(std::find(list.begin(), list.end(), victim));
    const int r = register_[size_t(victim)];
    register_[size_t(victim)] = -1;
    free_[bank].push_back(r);
    if (slot_[size_t(victim)] >= 0) return;
    slot_[size_t(victim)] = slots_++;
    const Operand place{-1, {rsp, 0, 64 * slot_[size_t(victim)]}};
    if (bank) out_.mask(0, 1, 0, 0x91, r, 0, place);
    else out_.vector({1, 0, 0, 0x29}, r, 0, place, {});
  }

  void reload(int v) {
    const int r = take(v);
    const Operand place{-1, {rsp, 0, 64 * slot_[size_t(v)]}};
    if (bank(v)) out_.mask(0, 1, 0, 0x90, r, 0, place);
    else out_.vector({1, 0, 0, 0x28}, r, 0, place, {});
  }

  const VectorCode& code_;
  Encoder& out_;
  const bool partial_;
  const int copy_;
  const bool prefetches_;
  std::vector<int> register_, slot_;
  std::vector<bool> fixed_; // values that keep their registers
  std::vector<std::vector<int>> uses_; // of each value, the last one first
  std::vector<int> free_[2], owners_[2]; // vectors, masks
  std::vector<int> pinned_;
  int slots_ = 0;
};

void VectorCode::emit_invariants(Encoder& out) const {
  for (size_t k = 0; k < invariants(); ++k) {
    const Instruction& in = instructions_[invariants_[k]];
    Modifiers m;
    m.length = in.length;
    out.vector(in.op, 31 - int(k), 0, {-1, in.memory}, m);
  }
  for (size_t k = 0; k < accumulations_.size(); ++k) {
    const int first = accumulator(k, 0);
    out.vector({2, 1, 0, 0x58}, first, 0, {-1, accumulations_[k].start}, {}); // vpbroadcastd
    for (int copy = 1; copy < kCopies; ++copy) move_vector(out, accumulator(k, copy), first);
  }
}

void VectorCode::emit_sums(Encoder& out, int base) const {
  for (size_t k = 0; k < accumulations_.size(); ++k) {
    const Combine how = accumulations_[k].how;
    combine(out, how, accumulator(k, 0), accumulator(k, 1));
    combine(out, how, accumulator(k, 2), accumulator(k, 3));
    combine(out, how, accumulator(k, 0), accumulator(k, 2));
    const Operand to{-1, {base, 0, int32_t(64 * k)}};
    out.vector({1, 0, 0, 0x11}, accumulator(k, 0), 0, to, {}); // vmovups
  }
}

int VectorCode::emit(Encoder& out, bool partial, int copy) const {
  return Allocation(*this, out, partial, copy).run();
}

} // namespace ftm::native
