// The table of inner loops that the emulator uses. Each vector instruction set (portable, AVX2,
// AVX-512, AVX-512 with BF16, AVX-512 with AMX) has a table built from the same sources, and one is
// selected at startup.
//
// All loops may read, but never write, up to kSlack bytes past the end of an operand. A destination
// may be equal to an operand, but must not overlap it otherwise.
#pragma once

#include <cstdint>

#include "isa_gen.h"
#include "types.h"

namespace ftm {

constexpr int64_t kSlack = 64;

// Operations on strips, in the order of the instruction table. Compares write one byte (0 or 1) per
// element; Sel reads such a mask as its first operand.
using Op = isa::Strip;
constexpr int kOps = static_cast<int>(Op::Count);

enum class Reduction : uint8_t { Sum, Prod, Min, Max, And, Or };
constexpr int kReductions = 6;

// d[i] = op(a[i], b[i], c[i]) for i < n. In a variant with bit 0, 1 or 2 set, operand a, b or c is
// one element for all i.
using StripFn = void (*)(void* d, const void* a, const void* b, const void* c, int64_t n);

// State of a reduction: float64 for floating-point types, int64 for others.
union Accumulator {
  double f;
  int64_t i;
};

// Combines acc with a[0..n).
using ReduceFn = void (*)(Accumulator* acc, const void* a, int64_t n);

// Combines acc[j] with a[i * columns + j] for all i < rows, j < columns.
using ColumnsFn = void (*)(Accumulator* acc, const void* a, int64_t rows, int64_t columns);

// Combines the lanes of row i, at lanes + i * lanes_step, with acc[i * acc_step] for i < rows. The
// lanes are a vector of float32, as translated code leaves them.
using FoldFn = void (*)(
    Accumulator* acc, int64_t acc_step, const float* lanes, int64_t lanes_step, int64_t rows);

// C[m x n] (+)= A[m x k] B[k x n]. a_row, a_step: distance in elements between rows of A and
// between successive k, one of which is 1. ldb, ldc: distance between rows. acc: add to C instead
// of overwriting it.
template <class T, class C = T, class B = T>
using MatrixFn = void (*)(
    int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_step, const B* b,
    int64_t ldb, C* c, int64_t ldc, bool acc);

// As MatrixFn for float32, with `a_step` 1. Row i of one operand is at offsets[i], in elements. It
// is A, whose rows come in groups of kIndirectRows at distance lda; or B, which is never read past
// its end if n is a multiple of 16.
constexpr int kIndirectRows = 3;
using IndirectMatrixFn = void (*)(
    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
    const int64_t* offsets, float* c, int64_t ldc, bool acc);

// Two bfloat16 numbers with successive k: the first one in the low half.
struct BrainPair { uint32_t bits; };
// A bfloat16 number of a row of B, which is paired with the next row's.
struct BrainRow { uint16_t bits; };

// Products of bfloat16 that read a packed copy of B; null functions if the host has none.
struct TileProducts {
  int64_t (*packed_bytes)(int64_t n, int64_t k); // of B
  // Packs B, k x n; n x k if `transposed`. Reads nothing past the end of B.
  void (*pack)(
      uint8_t* packed, const uint16_t* b, int64_t ldb, int64_t k, int64_t n, bool transposed);
  // C[m x n] (+)= A[m x k] B. Reads nothing past the end of A.
  void (*multiply)(
      int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t lda, const uint8_t* packed,
      float* c, int64_t ldc, bool acc);
};

// As MatrixFn for float32 C and at most kFewRows rows, but B is read once, as it is in memory, and
// never past its end. A is m x k in float32. transposed: B is n x k.
constexpr int64_t kFewRows = 8;
using FewRowsFn = void (*)(
    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const void* b, int64_t ldb,
    bool transposed, float* c, int64_t ldc, bool acc);

// d[j * ldd + i] = s[i * lds + j] for i < rows, j < columns; distances in elements.
using TransposeFn =
    void (*)(void* d, int64_t ldd, const void* s, int64_t lds, int64_t rows, int64_t columns);

struct KernelTable {
  const char* name;
  StripFn strip[kOps][kTypes][8];
  // Between strip forms of two types (a half is a float32 rounded to the half's values).
  StripFn convert[kTypes][kTypes];
  // Strip form <-> memory form of halves; indexed by type - F16.
  StripFn load_half[2];
  StripFn store_half[2];
  ReduceFn reduce[kReductions][kTypes];
  ColumnsFn columns[kReductions][kTypes];
  FoldFn fold[kReductions]; // sum, minimum and maximum
  MatrixFn<float> matrix_f32;
  IndirectMatrixFn matrix_indirect_a, matrix_indirect_b;
  // k counts pairs. B has pairs, or two rows for each k. Null: the host has no such product.
  MatrixFn<BrainPair, float> matrix_pairs;
  MatrixFn<BrainPair, float, BrainRow> matrix_rows;
  TileProducts tiles;
  FewRowsFn few_rows[3]; // B in float32, float16, bfloat16; indexed by `few_rows_index`
  MatrixFn<double> matrix_f64;
  MatrixFn<int32_t> matrix_i32;
  MatrixFn<int64_t> matrix_i64;
  TransposeFn transpose[4]; // by log2 of the element's bytes
  // d[p * ldd + j] = s[2p * lds + j], s[(2p + 1) * lds + j] for 2p < rows, j < columns. An odd last
  // row is paired with zeros.
  void (*pair_rows)(
      BrainPair* d, int64_t ldd, const uint16_t* s, int64_t lds, int64_t rows, int64_t columns);
  // d[i] = base + i * step
  void (*ramp)(int64_t* d, int64_t base, int64_t step, int64_t n);
  // Word index % 4 of Philox4x32-10 with counter (index / 4, offset) and the given key.
  void (*philox)(int32_t* d, const int64_t* index, uint64_t seed, uint64_t offset, int64_t n);
};

inline int few_rows_index(Type type) {
  return type == Type::F32 ? 0 : type == Type::F16 ? 1 : 2;
}

// Returns the best table for this host. The environment variable MACHINE_KERNELS=portable|avx2|
// avx512|avx512_bf16|avx512_amx selects a lesser one, for tests.
const KernelTable& kernels();

} // namespace ftm
