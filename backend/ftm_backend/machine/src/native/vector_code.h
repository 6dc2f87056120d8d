// Vector code on values: a list of instructions whose operands are numbered values, each defined
// once. `emit` assigns registers and writes machine code.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "native/encoder.h"

namespace ftm::native {

// A value that an instruction reads: one in a register, or one element in memory that the
// instruction repeats in all lanes.
struct Argument {
  int value = -1;
  Address memory;
  Argument(int v) : value(v) {}
  explicit Argument(const Address& at) : memory(at) {}
};

class VectorCode {
 public:
  // lanes: elements that one pass of the loop handles.
  explicit VectorCode(int lanes) : lanes_(lanes) {}
  int lanes() const { return lanes_; }

  // A constant in all lanes, as an argument of an instruction that takes 4 or 8 byte elements.
  Argument constant(uint64_t bits);
  // An element in memory, in all lanes of a register.
  int broadcast(int bytes, const Address& at);

  // dst = op(a, b). bytes: of an element of the result, which decides the length of the vectors
  // together with `wider`, the bytes of a larger source element.
  int binary(Opcode op, int bytes, int a, const Argument& b, int immediate = -1);
  int unary(Opcode op, int bytes, const Argument& a, int immediate = -1, int wider = 0);
  // The same for an instruction whose destination is ModRM's last operand.
  int narrow(Opcode op, int bytes, int wider, int a, int immediate = -1);
  // a * b + c, rounded once. wide: float64.
  int fma(bool wide, int a, int b, const Argument& c);
  // A mask of the lanes where a comparison holds.
  int compare(Opcode op, int bytes, int a, const Argument& b, int immediate = -1);
  // mask ? b : a, and mask ? op(a, b) : 0.
  int blend(Opcode op, int bytes, int mask, int a, const Argument& b);
  int masked(Opcode op, int bytes, int mask, int a, const Argument& b, int immediate = -1);
  // An operation on masks by its VEX opcode; b is -1 for negation.
  int mask_op(int code, int a, int b);

  // Element `index` % 16 of a table, in each lane. The table must outlive this object.
  int look_up(const float (&table)[16], int index);

  // Elements at `at`, one for each lane. The last pass may have fewer elements than lanes.
  int load(int bytes, const Address& at);
  void store(int bytes, const Address& at, int value);

  // Reduces a value of 16 float32 lanes over all passes of the loop. Each of the four copies of an
  // unrolled pass has its own accumulator, so that an addition need not wait for the one before it.
  // The strip kernels use the same order (kernels/reduce.h).
  enum class Combine : uint8_t { sum, least, most };
  void accumulate(Combine how, int value);

  bool is_mask(int value) const { return values_[size_t(value)].mask; }

  // Writes what comes before the loop: broadcast elements that stay in registers, and the start
  // values of reductions.
  void emit_invariants(Encoder& out) const;
  // Writes what comes behind the loop: stores the lanes of reduction k at `base` + 64 * k.
  void emit_sums(Encoder& out, int base) const;
  // The passes that are worth writing one after the other in the loop: 1 or kCopies.
  int copies() const;
  static constexpr int kCopies = 4;

  // Writes one pass of the loop: pass `copy` from the loop's index on. partial: accesses memory
  // only in the lanes of mask register 1. Returns the 64-byte slots of the stack that it uses, from
  // rsp on.
  int emit(Encoder& out, bool partial, int copy = 0) const;
  const std::vector<uint64_t>& constants() const { return constants_; }

 private:
  enum class Form : uint8_t { plain, narrowing, fma, mask, load, store, accumulate };
  struct Instruction {
    Form form;
    Opcode op;
    int length; // bytes of the vectors
    int dst, first, last, third; // values, or -1; third: an fma's addend
    int mask = -1;
    bool zero = false, has_memory = false, repeat = false;
    int immediate = -1;
    Address memory = {};
  };
  struct Value { bool mask; };
  struct Accumulation {
    Combine how;
    Address start; // of the constant that changes nothing
  };
  friend class Allocation;

  // Registers from 31 down that hold broadcast elements during the loop. The others suffice for
  // most bodies; what exceeds this number is loaded in each pass.
  static constexpr size_t kMostInvariants = 10;
  size_t invariants() const {
    return invariants_.size() < kMostInvariants ? invariants_.size() : kMostInvariants;
  }

  int value(bool mask) {
    values_.push_back({mask});
    return int(values_.size()) - 1;
  }
  int length(int bytes) const { return lanes_ * bytes; }
  // Whether a pass loads more than it stores, so that its loads are worth prefetching. Otherwise
  // stores limit the time.
  bool is_reading() const;
  // The register of an accumulator: those below the invariants'.
  int accumulator(size_t number, int copy) const {
    return 31 - int(invariants()) - kCopies * int(number) - copy;
  }
  static void combine(Encoder& out, Combine how, int to, int with, int lanes = 0);
  Instruction start(Form form, Opcode op, int length, const Argument& last) const;

  int lanes_;
  std::vector<Value> values_;
  std::vector<Instruction> instructions_;
  std::vector<size_t> invariants_; // instructions that broadcast an element
  std::vector<Accumulation> accumulations_;
  std::vector<uint64_t> constants_;
  std::map<uint64_t, int32_t> constant_at_;
  std::map<const float*, int32_t> table_at_;
  std::map<std::pair<int, std::pair<int, int32_t>>, int> broadcasts_;
};

} // namespace ftm::native
