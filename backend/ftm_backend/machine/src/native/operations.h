// Vector code of the operations of map bodies: the same sequences of roundings as the strip loops
// in kernels/, so that results are equal to the bit. Only which of two NaNs survives may differ.
#pragma once

#include <cstring>

#include "kernels/erf_pieces.h"
#include "kernels/table.h"
#include "native/vector_code.h"

namespace ftm::native {

class Operations {
 public:
  explicit Operations(VectorCode& code) : c_(code) {}

  // --- constants and instructions by type ---

  static uint64_t float_bits(double x, bool wide) {
    uint64_t bits = 0;
    const float narrow = float(x);
    if (wide) std::memcpy(&bits, &x, 8);
    else std::memcpy(&bits, &narrow, 4);
    return bits;
  }
  Argument number(double x, Type t) { return c_.constant(float_bits(x, t == Type::F64)); }
  // All bytes of an element repeat every 8 bytes, so that one constant serves every size.
  Argument integer(int64_t x, Type t) {
    const int bits = 8 * int(type_bytes(t));
    uint64_t u = uint64_t(x);
    if (bits < 64) u &= (uint64_t(1) << bits) - 1;
    return c_.constant(u);
  }
  int in_register(const Argument& a, Type t) {
    return a.value >= 0 ? a.value : c_.broadcast(int(type_bytes(t)), a.memory);
  }
  // An argument for instructions on bytes and words, which cannot repeat an element.
  Argument plain(const Argument& a, Type t) {
    return type_bytes(t) >= 4 ? a : Argument(in_register(a, t));
  }

  static Opcode on_floats(Type t, uint8_t code) {
    return t == Type::F64 ? Opcode{1, 1, 1, code} : Opcode{1, 0, 0, code};
  }
  // codes: of elements of 1, 2, 4 and 8 bytes.
  static Opcode on_integers(Type t, const Opcode (&codes)[4]) {
    const int64_t bytes = type_bytes(t);
    return codes[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
  }

  int arithmetic(Type t, uint8_t code, int a, const Argument& b) {
    return c_.binary(on_floats(t, code), int(type_bytes(t)), a, b);
  }
  int add(Type t, int a, const Argument& b) {
    if (is_float(t)) return arithmetic(t, 0x58, a, b);
    return integer_op(
        t, {{1, 1, 0, 0xfc}, {1, 1, 0, 0xfd}, {1, 1, 0, 0xfe}, {1, 1, 1, 0xd4}}, a, b);
  }
  int subtract(Type t, int a, const Argument& b) {
    if (is_float(t)) return arithmetic(t, 0x5c, a, b);
    return integer_op(
        t, {{1, 1, 0, 0xf8}, {1, 1, 0, 0xf9}, {1, 1, 0, 0xfa}, {1, 1, 1, 0xfb}}, a, b);
  }
  int multiply(Type t, int a, const Argument& b) {
    if (is_float(t)) return arithmetic(t, 0x59, a, b);
    return integer_op(t, {{}, {1, 1, 0, 0xd5}, {2, 1, 0, 0x40}, {2, 1, 1, 0x40}}, a, b);
  }
  int divide(Type t, int a, const Argument& b) { return arithmetic(t, 0x5e, a, b); }
  int integer_op(Type t, const Opcode (&codes)[4], int a, const Argument& b) {
    return c_.binary(on_integers(t, codes), int(type_bytes(t)), a, plain(b, t));
  }

  // Bitwise operations: those of 4 or 8 bytes serve every size.
  int bitwise(Type t, uint8_t code, int a, const Argument& b) {
    return c_.binary({1, 1, uint8_t(type_bytes(t) == 8), code}, int(type_bytes(t)), a, plain(b, t));
  }
  int bit_and(Type t, int a, const Argument& b) { return bitwise(t, 0xdb, a, b); }
  int bit_or(Type t, int a, const Argument& b) { return bitwise(t, 0xeb, a, b); }
  int bit_xor(Type t, int a, const Argument& b) { return bitwise(t, 0xef, a, b); }

  enum Compare { equal = 0, less = 1, less_equal = 2, unordered = 3, not_equal = 4, not_less = 5 };
  int compare(Type t, Compare what, int a, const Argument& b) {
    const int bytes = int(type_bytes(t));
    if (is_float(t)) return c_.compare(on_floats(t, 0xc2), bytes, a, b, what);
    const uint8_t sign = t == Type::U8 || t == Type::B1 ? 0xe : 0xf;
    const uint8_t code = uint8_t((bytes < 4 ? 0x30 : 0x10) | sign);
    const Opcode op{3, 1, uint8_t(bytes == 2 || bytes == 8), code};
    return c_.compare(op, bytes, a, plain(b, t), what);
  }
  int not_zero(Type t, int a) { // vptestm
    const int bytes = int(type_bytes(t));
    const Opcode op{2, 1, uint8_t(bytes == 2 || bytes == 8), uint8_t(bytes < 4 ? 0x26 : 0x27)};
    return c_.compare(op, bytes, a, a);
  }
  // mask ? b : a
  int select(Type t, int mask, int a, const Argument& b) {
    const int bytes = int(type_bytes(t));
    const Opcode op{2, 1, uint8_t(bytes == 2 || bytes == 8), uint8_t(bytes < 4 ? 0x66 : 0x64)};
    return c_.blend(op, bytes, mask, a, plain(b, t));
  }
  // mask ? x : 0 for a number x
  int choose(Type t, int mask, const Argument& x) {
    const int bytes = int(type_bytes(t));
    const uint8_t codes[] = {0x78, 0x79, 0x58, 0x59};
    const uint8_t code = codes[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
    return c_.masked({2, 1, uint8_t(bytes == 8), code}, bytes, mask, -1, x);
  }

  // vpsllv, vpsrav and vpsrlv. They shift out all bits from the width on, as the machine defines.
  static constexpr uint8_t kLeft = 0x47, kSigned = 0x46, kRight = 0x45;
  int shift(Type t, uint8_t code, int a, const Argument& b) {
    const uint8_t words = code == kLeft ? 0x12 : code == kSigned ? 0x11 : 0x10;
    return integer_op(t, {{}, {2, 1, 1, words}, {2, 1, 0, code}, {2, 1, 1, code}}, a, b);
  }

  // --- minimum and maximum ---

  // The operands of vmin and vmax are exchanged: of equal operands they return the second.
  // `number_wins`: the number if one operand is NaN; else NaN.
  int extreme(Type t, bool least, bool number_wins, int a, int b, bool b_is_number) {
    const int bytes = int(type_bytes(t));
    if (!is_float(t)) {
      const bool is_signed = t != Type::U8;
      const Opcode low[] = {
          is_signed ? Opcode{2, 1, 0, 0x38} : Opcode{1, 1, 0, 0xda},
          {1, 1, 0, 0xea},
          {2, 1, 0, 0x39},
          {2, 1, 1, 0x39}};
      const Opcode high[] = {
          is_signed ? Opcode{2, 1, 0, 0x3c} : Opcode{1, 1, 0, 0xde},
          {1, 1, 0, 0xee},
          {2, 1, 0, 0x3d},
          {2, 1, 1, 0x3d}};
      const int64_t at = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
      return c_.binary((least ? low : high)[at], bytes, a, b);
    }
    const int r = arithmetic(t, least ? 0x5d : 0x5f, b, a);
    if (!number_wins && b_is_number) return r; // a NaN in a is the second operand
    const int nan = number_wins ? a : b;
    return select(t, compare(t, unordered, nan, nan), r, b);
  }

  // --- floats ---

  int absolute(Type t, int a) {
    if (t == Type::U8) return a;
    if (is_float(t)) return bit_and(t, a, sign_constant(t, false));
    const Opcode op =
        on_integers(t, {{2, 1, 0, 0x1c}, {2, 1, 0, 0x1d}, {2, 1, 0, 0x1e}, {2, 1, 1, 0x1f}});
    return c_.unary(op, int(type_bytes(t)), a);
  }
  int negate(Type t, int a) {
    if (is_float(t)) return bit_xor(t, a, sign_constant(t, true));
    return subtract(t, in_register(integer(0, t), t), a);
  }
  int with_sign(Type t, int a, int sign) {
    return bit_or(
        t, bit_and(t, a, sign_constant(t, false)), bit_and(t, sign, sign_constant(t, true)));
  }
  int root(Type t, const Argument& a) {
    return c_.unary(on_floats(t, 0x51), int(type_bytes(t)), a);
  }
  int reciprocal(Type t, int a) { return divide(t, in_register(number(1, t), t), a); }
  // to: 0 nearest even, 1 down, 2 up, 3 towards zero
  int round(Type t, int a, int to) {
    const bool wide = t == Type::F64;
    return c_.unary({3, 1, wide, uint8_t(wide ? 0x09 : 0x08)}, int(type_bytes(t)), a, 8 | to);
  }
  int fma(Type t, int a, int b, const Argument& c) { return c_.fma(t == Type::F64, a, b, c); }

  // --- elementary functions of float32, see kernels/math_f32.h ---

  int exp(int x, bool base_two) {
    const double limit = base_two ? 129 : 89, vanishing = base_two ? -151 : -104;
    const int stays = c_.compare(on_floats(F, 0xc2), 4, x, number(vanishing, F), not_less);
    // vmin returns its second operand if that is NaN.
    const int y = c_.masked(on_floats(F, 0x5d), 4, stays, in_register(number(limit, F), F), x);
    int r, n;
    if (base_two) {
      n = nearest(y);
      r = multiply(F, subtract(F, y, n), number(0.693147180559945309f, F));
    } else {
      n = nearest(multiply(F, y, number(1.44269504088896341f, F)));
      r = fma(F, n, in_register(number(-0.693145751953125f, F), F), y);
      r = fma(F, n, in_register(number(-1.42860682030941723e-06f, F), F), r);
    }
    const int p = polynomial(
        r, {0.500000009516549029f, 0.166665188515573229f, 0.0416662058732681999f,
            0.00836888786265278767f, 0.00139504862251936112f});
    const int e = add(F, fma(F, p, multiply(F, r, r), r), number(1, F));
    // vscalef rounds e * 2^n once. The strip loop multiplies twice, but only once inexactly.
    return c_.masked({2, 1, 0, 0x2c}, 4, stays, e, n);
  }

  int log(int x) {
    const int small = compare(F, less, x, number(1.17549435e-38f, F));
    const int y = select(F, small, x, multiply(F, x, number(8388608.0f, F)));
    const int k = shift_by(kSigned, subtract(I, y, integer(0x3f3504f3, I)), 23);
    const int e =
        c_.unary({1, 0, 0, 0x5b}, 4, subtract(I, k, choose(I, small, integer(23, I)))); // vcvtdq2ps
    const int m = subtract(I, y, shift_by(kLeft, k, 23));
    const int f = subtract(F, m, number(1, F));
    const int z = multiply(F, f, f);
    const int p = polynomial(
        f, {0.333333119654517802f, -0.250000087158650526f, 0.20002167137255881f,
            -0.166680901622208637f, 0.142185529297358896f, -0.124030863302363832f,
            0.11893524951545036f, -0.116943244350737682f, 0.0675753088275289549f});
    int r = fma(F, multiply(F, p, f), z, multiply(F, e, number(-2.12194440e-4f, F)));
    r = fma(F, z, in_register(number(-0.5, F), F), r);
    r = fma(F, e, in_register(number(0.693359375f, F), F), add(F, f, r));
    const double infinity = __builtin_inf();
    r = select(F, compare(F, equal, x, number(0, F)), r, number(-infinity, F));
    r = select(F, compare(F, less, x, number(0, F)), r, number(__builtin_nan(""), F));
    r = select(F, compare(F, equal, x, number(infinity, F)), r, x);
    return select(F, compare(F, unordered, x, x), r, x);
  }

  int tanh(int x) {
    const int a = absolute(F, x), z = multiply(F, a, a);
    const int p = polynomial(
        z, {-0.333333296135353183f, 0.133331578925945197f, -0.0539405627697813432f,
            0.0216663450443961658f, -0.00809196438239783517f, 0.0020646620344559996f});
    const int small = fma(F, multiply(F, p, z), a, a);
    const int one = in_register(number(1, F), F);
    const int below = add(F, exp(add(F, a, a), false), one);
    const int large = subtract(F, one, divide(F, in_register(number(2, F), F), below));
    return with_sign(F, select(F, compare(F, less, a, number(0.625, F)), large, small), x);
  }

  int erf(int x) {
    // vmin returns its second operand if that is NaN.
    const int a = arithmetic(F, 0x5d, in_register(number(kErfLimit, F), F), absolute(F, x));
    const int count = fma(F, a, in_register(number(kErfPerPiece, F), F), number(8388608, F));
    const int n = subtract(F, count, number(8388608, F));
    const int t = fma(F, n, in_register(number(-kErfWidth, F), F), a);
    int p = c_.look_up(kErfPieces[kErfCoefficients - 1], count);
    for (int k = kErfCoefficients - 2; k > 0; --k)
      p = fma(F, p, t, c_.look_up(kErfPieces[k], count));
    const int first = compare(F, equal, n, number(0, F));
    const int base = select(F, first, c_.look_up(kErfPieces[0], count), t);
    return bit_or(I, fma(F, p, t, base), bit_and(I, x, sign_constant(F, true)));
  }

  // --- conversions ---

  // To `to` from `from`, neither of them a half or B1.
  int convert(int a, Type from, Type to) {
    const int to_bytes = int(type_bytes(to)), from_bytes = int(type_bytes(from));
    const bool is_long = from == Type::I64;
    if (from == to) return a;
    if (is_float(from) && is_float(to)) // vcvtps2pd, vcvtpd2ps
      return c_.unary(on_floats(from, 0x5a), to_bytes, a, -1, from_bytes);
    if (is_float(from)) {
      const bool wide = from == Type::F64;
      if (to == Type::I64) return c_.unary({1, 1, wide, 0x7a}, 8, a); // vcvttps2qq, vcvttpd2qq
      const Opcode op = wide ? Opcode{1, 1, 1, 0xe6} : Opcode{1, 2, 0, 0x5b};
      return convert(c_.unary(op, 4, a, -1, from_bytes), Type::I32, to);
    }
    if (is_long && to == Type::F64) return c_.unary({1, 2, 1, 0xe6}, 8, a); // vcvtqq2pd
    if (is_long && to == Type::F32) return c_.unary({1, 0, 1, 0x5b}, 4, a, -1, 8); // vcvtqq2ps
    if (is_float(to)) {
      const int i = convert(a, from, Type::I32);
      return to == Type::F64 ? c_.unary({1, 2, 0, 0xe6}, 8, i) : c_.unary({1, 0, 0, 0x5b}, 4, i);
    }
    if (from_bytes == to_bytes) return a; // i8 and u8
    if (from_bytes > to_bytes) { // vpmov
      const int kind = (from_bytes == 8 ? 2 : from_bytes == 4 ? 1 : 0);
      const uint8_t code = uint8_t(
          kind == 0   ? 0x30
          : kind == 1 ? (to_bytes == 1 ? 0x31 : 0x33)
                      : (to_bytes == 1   ? 0x32
                         : to_bytes == 2 ? 0x34
                                         : 0x35));
      return c_.narrow({2, 2, 0, code}, to_bytes, from_bytes, a);
    }
    // vpmovsx, vpmovzx
    const uint8_t pair = uint8_t(
        from_bytes == 1   ? (to_bytes == 2   ? 0
                             : to_bytes == 4 ? 1
                                             : 2)
        : from_bytes == 2 ? (to_bytes == 4 ? 3 : 4)
                          : 5);
    const uint8_t base = from == Type::U8 || from == Type::B1 ? 0x30 : 0x20;
    return c_.unary({2, 1, 0, uint8_t(base | pair)}, to_bytes, a);
  }

  // float32 from the 16 bits of a half, and back; `rounded` keeps float32.
  int from_half(int a, Type half) {
    if (half == Type::F16) return c_.unary({2, 1, 0, 0x13}, 4, a); // vcvtph2ps
    return shift_by(kLeft, convert_words(a), 16);
  }
  int to_half(int a, Type half) {
    if (half == Type::F16) return c_.narrow({3, 1, 0, 0x1d}, 2, 4, a, 0); // vcvtps2ph
    return convert(shift_by(kRight, brain(a), 16), Type::I32, Type::I16);
  }
  int rounded(int a, Type half) {
    if (half == Type::F16) return from_half(to_half(a, half), half);
    return bit_and(I, brain(a), integer(int64_t(0xffff0000), I));
  }

  // 0 and 1 of type t where a mask is clear and set, and back.
  int from_mask(int mask, Type t) {
    return choose(t, mask, is_float(t) ? number(1, t) : integer(1, t));
  }

 private:
  static constexpr Type F = Type::F32, I = Type::I32;

  Argument sign_constant(Type t, bool sign) {
    const uint64_t bit = t == Type::F64 ? uint64_t(1) << 63 : uint64_t(1) << 31;
    return c_.constant(sign ? bit : bit - 1);
  }

  template <int N>
  int polynomial(int x, const float (&coefficients)[N]) {
    int p = in_register(number(coefficients[N - 1], F), F);
    for (int k = N - 2; k >= 0; --k) p = fma(F, p, x, number(coefficients[k], F));
    return p;
  }
  int nearest(int x) {
    const Argument magic = number(12582912.0f, F);
    return subtract(F, add(F, x, magic), magic);
  }
  int shift_by(uint8_t code, int a, int count) { return shift(I, code, a, integer(count, I)); }
  int convert_words(int a) { return c_.unary({2, 1, 0, 0x33}, 4, a); } // vpmovzxwd

  // The bits of a float32 rounded to bfloat16 in the upper half; the lower half is arbitrary.
  int brain(int a) {
    const int odd = bit_and(I, shift_by(kRight, a, 16), integer(1, I));
    const int up = add(I, add(I, odd, a), integer(0x7fff, I));
    const int quiet = bit_or(I, a, integer(0x400000, I));
    return select(I, compare(F, unordered, a, a), up, quiet);
  }

  VectorCode& c_;
};

} // namespace ftm::native
