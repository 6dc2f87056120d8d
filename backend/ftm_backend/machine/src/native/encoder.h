// Encodes the x86-64 instructions that translated map bodies consist of: EVEX vector instructions,
// VEX mask instructions, and a few scalar ones for the loop around them.
//
// This is our own encoder because translated bodies need some 100 instructions of three regular
// formats. An assembler library (Xbyak, AsmJit) or LLVM would be a dependency of every wheel and of
// every build from source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ftm::native {

// General registers by their numbers in encodings.
enum Register : int {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15
};

// An EVEX instruction. map: 1 for 0F, 2 for 0F38, 3 for 0F3A. prefix: 0 for none, 1 for 66, 2 for
// F3, 3 for F2. wide: EVEX.W.
struct Opcode { uint8_t map, prefix, wide, code; };

// Memory at base + index * scale + offset. The index is always rax, the loop's counter.
struct Address {
  int base = rsp; // kConstants: the constants behind the code
  int scale = 0; // 0: without the index
  int32_t offset = 0;
};
constexpr int kConstants = -1;

// The last operand of an instruction: a vector or mask register, or memory.
struct Operand {
  int reg = -1; // -1: memory
  Address memory;
};

struct Modifiers {
  int length = 64; // bytes of the vectors
  int mask = 0; // mask register; 0: none
  bool zero = false; // masked lanes become 0 instead of keeping their values
  bool broadcast = false; // memory is one element
  int immediate = -1;
};

class Encoder {
 public:
  std::vector<uint8_t> code;

  // reg: the register in ModRM.reg; first: the one in EVEX.vvvv, or 0.
  void vector(Opcode op, int reg, int first, const Operand& last, const Modifiers& m) {
    const bool is_register = last.reg >= 0;
    const int base = is_register ? last.reg : last.memory.base < 0 ? 0 : last.memory.base;
    const int x = is_register ? base >> 4 & 1 : 0;
    const auto inverted = [](int bit, int at) { return (~bit & 1) << at; };
    byte(0x62);
    byte(
        inverted(reg >> 3, 7) | inverted(x, 6) | inverted(base >> 3, 5) | inverted(reg >> 4, 4) |
        op.map);
    byte(op.wide << 7 | (~first & 15) << 3 | 4 | op.prefix);
    const int length = m.length <= 16 ? 0 : m.length == 32 ? 1 : 2;
    byte(int(m.zero) << 7 | length << 5 | int(m.broadcast) << 4 | inverted(first >> 4, 3) | m.mask);
    byte(op.code);
    operand(reg, last, m.immediate >= 0 ? 1 : 0);
    if (m.immediate >= 0) byte(m.immediate);
  }

  // A VEX instruction of map 0F on mask registers 0 to 7 and general registers rax to rdi.
  void mask(int prefix, int wide, int length, int opcode, int reg, int first, const Operand& last) {
    const int base = last.reg >= 0 ? last.reg : last.memory.base;
    byte(0xc4);
    byte(0xc0 | (~(base >> 3) & 1) << 5 | 1);
    byte(wide << 7 | (~first & 15) << 3 | length << 2 | prefix);
    byte(opcode);
    operand(reg, last, 0);
  }

  void load(int to, const Address& from) { // mov to, [from]
    scalar(0x8b, to, {-1, from});
  }
  void store(const Address& to, int from) { scalar(0x89, from, {-1, to}); }
  void move(int to, int from) { scalar(0x8b, to, {from, {}}); }
  void add(int to, const Address& from) { scalar(0x03, to, {-1, from}); }
  void subtract(int to, int from) { scalar(0x2b, to, {from, {}}); }
  void compare(int a, int b) { scalar(0x3b, a, {b, {}}); }
  void add_immediate(int to, int32_t x) { scalar_immediate(0, to, x); }
  void and_immediate(int to, int32_t x) { scalar_immediate(4, to, x); }
  void subtract_immediate(int to, int32_t x) { scalar_immediate(5, to, x); }
  void set(int to, int32_t x) { // mov to, sign-extended x
    rex(0, to);
    byte(0xc7);
    byte(0xc0 | (to & 7));
    word(uint32_t(x));
  }
  void low_bits(int to, int from, int count) { // bzhi: bits 0 to count - 1 of `from`
    byte(0xc4);
    byte(0xe2);
    byte(0x80 | (~count & 15) << 3);
    byte(0xf5);
    byte(0xc0 | (to & 7) << 3 | (from & 7));
  }
  void prefetch(const Address& at) { // prefetcht0
    rex(0, at.base);
    byte(0x0f);
    byte(0x18);
    operand(1, {-1, at}, 0);
  }
  void push(int reg) {
    if (reg >= 8) byte(0x41);
    byte(0x50 | (reg & 7));
  }
  void pop(int reg) {
    if (reg >= 8) byte(0x41);
    byte(0x58 | (reg & 7));
  }
  void zero_upper() { // vzeroupper
    for (int b : {0xc5, 0xf8, 0x77}) byte(b);
  }
  void ret() { byte(0xc3); }

  enum Condition { below = 2, not_below = 3, equal = 4, not_equal = 5 };
  // A branch to `target`; returns the place to give to `land` for a target that comes later.
  size_t branch(Condition condition, size_t target = 0) {
    byte(0x0f);
    byte(0x80 | condition);
    word(uint32_t(int64_t(target) - int64_t(code.size()) - 4));
    return code.size() - 4;
  }
  void land(size_t branch) { patch(branch, uint32_t(code.size() - branch - 4)); }

  // Appends the constants and resolves the references to them.
  void append_constants(const std::vector<uint64_t>& constants) {
    while (code.size() % 64) byte(0xcc);
    const size_t start = code.size();
    for (uint64_t c : constants)
      for (int k = 0; k < 8; ++k) byte(int(c >> 8 * k & 255));
    for (const Reference& r : references_)
      patch(r.at, uint32_t(int64_t(start) + r.offset - int64_t(r.end)));
    references_.clear();
  }

 private:
  struct Reference {
    size_t at, end; // of the displacement, and of the instruction
    int32_t offset;
  };

  void byte(int b) { code.push_back(uint8_t(b)); }
  void word(uint32_t x) {
    for (int k = 0; k < 4; ++k) byte(int(x >> 8 * k & 255));
  }
  void patch(size_t at, uint32_t x) {
    for (int k = 0; k < 4; ++k) code[at + size_t(k)] = uint8_t(x >> 8 * k);
  }
  void rex(int reg, int base) { byte(0x48 | (reg >> 3) << 2 | base >> 3); }
  void scalar(int opcode, int reg, const Operand& last) {
    rex(reg, last.reg >= 0 ? last.reg : last.memory.base);
    byte(opcode);
    operand(reg, last, 0);
  }
  void scalar_immediate(int extension, int to, int32_t x) {
    rex(0, to);
    byte(0x81);
    byte(0xc0 | extension << 3 | (to & 7));
    word(uint32_t(x));
  }

  // ModRM and what follows it. Displacements have 32 bits: those of 8 bits are scaled in EVEX.
  // behind: bytes of the instruction that follow.
  void operand(int reg, const Operand& last, int behind) {
    const int field = (reg & 7) << 3;
    if (last.reg >= 0) return byte(0xc0 | field | (last.reg & 7));
    const Address& at = last.memory;
    if (at.base == kConstants) {
      byte(field | 5);
      word(0);
      references_.push_back({code.size() - 4, code.size() + size_t(behind), at.offset});
      return;
    }
    byte(0x80 | field | 4);
    const int scale = at.scale == 8 ? 3 : at.scale == 4 ? 2 : at.scale == 2 ? 1 : 0;
    byte(scale << 6 | (at.scale ? rax : rsp) << 3 | (at.base & 7));
    word(uint32_t(at.offset));
  }

  std::vector<Reference> references_;
};

} // namespace ftm::native
