// The inner loops of matrix products.
//
// A block of Rows x Vectors vectors of C stays in registers while k runs; B is loaded as vectors
// and A by broadcast, both directly from scratchpad. Columns past n are computed from arbitrary
// data (see kSlack) and not stored.
//
// Products of bfloat16 have 32-bit elements, each a pair of numbers with successive k. B may also
// have rows of single numbers. Two rows are then paired while they are loaded, which costs less
// than 2% of a product and saves a copy of B, which would cost 20% of a product with 28 rows.
#pragma once

#include "kernels/table.h"
#include "kernels/vec.h"

namespace ftm {
namespace FTM_ISA {

#if defined(__AVX512F__)
constexpr int kRows = 14, kVectors = 2, kWide = 6;
#elif defined(__AVX2__)
constexpr int kRows = 6, kVectors = 2, kWide = 4;
#else
constexpr int kRows = 4, kVectors = 2, kWide = 4;
#endif
constexpr int kThree = kVectors + 1;

// The operand whose rows are at offsets of a table, as in XNNPACK's indirect products, and not at a
// fixed distance. Rows of A come in groups of three; within a group they are at a fixed distance.
enum class Indirect : uint8_t { none, a, b };

// How an element of A multiplies a vector of B: sum + x * row.
template <class T>
struct Factor {
  using Sum = T;
  static Vec<T> add_product(T x, Vec<T> row, Vec<T> sum) {
    return fma(broadcast<Vec<T>>(x), row, sum);
  }
};
#if defined(__AVX512BF16__)
template <>
struct Factor<BrainPair> {
  using Sum = float;
  static vf add_product(BrainPair x, vf row, vf sum) {
    const __m512i wide = _mm512_set1_epi32(int(x.bits));
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)wide, (__m512bh)row);
  }
};
#endif
template <class T>
using SumOf = typename Factor<T>::Sum;

// How the vectors of B for one k are loaded. B has elements of type E, and `kRows` rows for each k.
template <class T, class E>
struct RowsOfB {
  static constexpr int kRows = 1;
  template <int Vectors, class V>
  static inline __attribute__((always_inline)) void load_vectors(
      const E* b, int64_t, V (&row)[Vectors]) {
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) row[v] = load<V>(b + v * VectorOf<SumOf<T>>::lanes);
  }
  // Brings the sums of a row of C into the order of its columns.
  template <int Vectors, class V>
  static inline __attribute__((always_inline)) void order_columns(V (&)[Vectors]) {}
};
#if defined(__AVX512BF16__)
// Numbers of two rows are interleaved within each quarter of a register. So two vectors have
// columns 0-3, 8-11, 16-19, 24-27, and the others. A single vector has its columns in order.
template <>
struct RowsOfB<BrainPair, BrainRow> {
  static constexpr int kRows = 2;
  template <int Vectors, class V>
  static inline __attribute__((always_inline)) void load_vectors(
      const BrainRow* b, int64_t ldb, V (&row)[Vectors]) {
    constexpr int64_t L = kFloats;
#pragma GCC unroll 16
    for (int v = 0; v + 1 < Vectors; v += 2) {
      const __m512i first = load<__m512i>(b + v * L), second = load<__m512i>(b + ldb + v * L);
      row[v] = (V)_mm512_unpacklo_epi16(first, second);
      row[v + 1] = (V)_mm512_unpackhi_epi16(first, second);
    }
    if constexpr (Vectors % 2 == 1) {
      const BrainRow* last = b + (Vectors - 1) * L;
      const __m512i low = _mm512_cvtepu16_epi32(load<__m256i>(last));
      const __m512i high = _mm512_cvtepu16_epi32(load<__m256i>(last + ldb));
      row[Vectors - 1] = (V)_mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    }
  }
  template <int Vectors, class V>
  static inline __attribute__((always_inline)) void order_columns(V (&sums)[Vectors]) {
#pragma GCC unroll 16
    for (int v = 0; v + 1 < Vectors; v += 2) {
      const V even = sums[v], odd = sums[v + 1];
      sums[v] = __builtin_shufflevector(
          even, odd, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
      sums[v + 1] = __builtin_shufflevector(
          even, odd, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    }
  }
};
#endif

// C[Rows x (Vectors vectors)] (+)= A B. Step1: successive k of A are adjacent, otherwise successive
// rows are. offsets: of the rows of the indirect operand. tail: lanes of the last vector that
// belong to C, or 0 for all.
template <class T, class E, int Rows, int Vectors, bool Step1, Indirect I>
__attribute__((noinline)) void matrix_block(
    int64_t k, const T* a, int64_t lda, const E* b, int64_t ldb, const int64_t* offsets,
    SumOf<T>* c, int64_t ldc, bool acc, int64_t tail) {
  using V = Vec<SumOf<T>>;
  constexpr int L = VectorOf<SumOf<T>>::lanes;
  V sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) sum[r][v] = V{};
  // One base pointer per three rows: address modes cover row distances 0, 1 and 2.
  constexpr int kBases = (Rows + 2) / 3;
  const T* base[kBases];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kBases; ++r)
    base[r] = a + (I == Indirect::a ? offsets[kIndirectRows * r] : Step1 ? 3 * r * lda : 3 * r);
#pragma GCC unroll 1
  for (int64_t p = 0; p < k; ++p) {
    V row[Vectors];
    RowsOfB<T, E>::load_vectors(I == Indirect::b ? b + offsets[p] : b, ldb, row);
    if constexpr (I != Indirect::b) b += RowsOfB<T, E>::kRows * ldb;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const T x = base[r / 3][Step1 ? (r % 3) * lda : r % 3];
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) sum[r][v] = Factor<T>::add_product(x, row[v], sum[r][v]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kBases; ++r) base[r] += Step1 ? 1 : lda;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    SumOf<T>* out = c + r * ldc;
    RowsOfB<T, E>::order_columns(sum[r]);
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v, out += L) {
      V y = sum[r][v];
      if (acc) y += load<V>(out);
      if (v + 1 == Vectors && tail) store_part(out, y, tail);
      else store(out, y);
    }
  }
}

template <class T, class E>
using BlockFn = void (*)(
    int64_t, const T*, int64_t, const E*, int64_t, const int64_t*, SumOf<T>*, int64_t, bool,
    int64_t);

// The rows of a block are a multiple of this.
constexpr int unit_of(Indirect i) {
  return i == Indirect::a ? kIndirectRows : 1;
}

// The blocks of at most Most rows.
template <class T, class E, int Vectors, bool Step1, Indirect I, int Most>
struct Blocks {
  static BlockFn<T, E> of(int64_t rows) {
    if (rows == Most) return matrix_block<T, E, Most, Vectors, Step1, I>;
    return Blocks<T, E, Vectors, Step1, I, Most - unit_of(I)>::of(rows);
  }
};
template <class T, class E, int Vectors, bool Step1, Indirect I>
struct Blocks<T, E, Vectors, Step1, I, 0> {
  static BlockFn<T, E> of(int64_t) { return nullptr; }
};

// One panel of Vectors vectors of columns, all rows; rows are distributed evenly over blocks of at
// most Most.
template <class T, class E, int Vectors, bool Step1, Indirect I, int Most>
void matrix_panel(
    int64_t m, int64_t k, const T* a, int64_t lda, const E* b, int64_t ldb, const int64_t* offsets,
    SumOf<T>* c, int64_t ldc, bool acc, int64_t tail) {
  constexpr int unit = unit_of(I), most = Most < unit ? 1 : Most / unit;
  const int64_t units = m / unit, blocks = (units + most - 1) / most;
  for (int64_t i = 0, done = 0; i < blocks; ++i) {
    const int64_t rows = units * (i + 1) / blocks * unit - done;
    Blocks<T, E, Vectors, Step1, I, most * unit>::of(rows)(
        k, I == Indirect::a ? a : a + (Step1 ? done * lda : done), lda, b, ldb,
        I == Indirect::a ? offsets + done : offsets, c + done * ldc, ldc, acc, tail);
    done += rows;
  }
}

template <class T, class E, bool Step1, Indirect I>
void matrix_oriented(
    int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const E* b, int64_t ldb,
    const int64_t* offsets, SumOf<T>* c, int64_t ldc, bool acc) {
  constexpr int64_t L = VectorOf<SumOf<T>>::lanes;
  constexpr int kNarrow = kRows * kVectors / kWide; // rows of a wide block: as many accumulators
  int64_t j = 0;
  if (m <= kNarrow)
    for (; j + kWide * L <= n; j += kWide * L)
      matrix_panel<T, E, kWide, Step1, I, kNarrow>(
          m, k, a, lda, b + j, ldb, offsets, c + j, ldc, acc, 0);
  const auto tail = [n](int64_t j, int vectors) {
    return n - j < vectors * L ? n - j - (vectors - 1) * L : 0;
  };
  const auto left = [n, &j] { return (n - j + L - 1) / L; };
  // The last three vectors form one panel: with a single vector, each multiplication would load an
  // element of A.
  for (; left() >= kVectors && left() != kThree; j += kVectors * L)
    matrix_panel<T, E, kVectors, Step1, I, kRows>(
        m, k, a, lda, b + j, ldb, offsets, c + j, ldc, acc, tail(j, kVectors));
  if (left() == kThree)
    return matrix_panel<T, E, kThree, Step1, I, kRows * kVectors / kThree>(
        m, k, a, lda, b + j, ldb, offsets, c + j, ldc, acc, tail(j, kThree));
  if (j < n)
    matrix_panel<T, E, 1, Step1, I, kRows>(
        m, k, a, lda, b + j, ldb, offsets, c + j, ldc, acc, (n - j) % L);
}

// Long sums are split so that the strip of B that row blocks share stays in the nearest cache.
constexpr int64_t kDepth = 512;

template <class T, class E = T>
void matrix(
    int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_step, const E* b,
    int64_t ldb, SumOf<T>* c, int64_t ldc, bool acc) {
  if (m == 0 || n == 0) return;
  for (int64_t p = 0; p == 0 || p < k; p += kDepth) {
    const int64_t depth = k - p < kDepth ? k - p : kDepth;
    const E* rows = b + p * RowsOfB<T, E>::kRows * ldb;
    if (a_step == 1)
      matrix_oriented<T, E, true, Indirect::none>(
          m, n, depth, a + p, a_row, rows, ldb, nullptr, c, ldc, acc || p > 0);
    else
      matrix_oriented<T, E, false, Indirect::none>(
          m, n, depth, a + p * a_step, a_step, rows, ldb, nullptr, c, ldc, acc || p > 0);
  }
}

template <Indirect I>
void matrix_indirect(
    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
    const int64_t* offsets, float* c, int64_t ldc, bool acc) {
  if (m == 0 || n == 0) return;
  for (int64_t p = 0; p == 0 || p < k; p += kDepth) {
    const bool in_b = I == Indirect::b;
    matrix_oriented<float, float, true, I>(
        m, n, k - p < kDepth ? k - p : kDepth, a + p, lda, in_b ? b : b + p * ldb, ldb,
        in_b ? offsets + p : offsets, c, ldc, acc || p > 0);
  }
}

// Integers wrap; rows of B are added to rows of C, which the compiler vectorizes.
template <class T, class U>
void matrix_integer(
    int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_step, const T* b,
    int64_t ldb, T* c, int64_t ldc, bool acc) {
  for (int64_t i = 0; i < m; ++i) {
    U* out = reinterpret_cast<U*>(c + i * ldc);
    if (!acc)
      for (int64_t j = 0; j < n; ++j) out[j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const U x = U(a[i * a_row + p * a_step]);
      const U* row = reinterpret_cast<const U*>(b + p * ldb);
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) out[j] += x * row[j];
    }
  }
}

[[maybe_unused]] static void put_matrix(KernelTable& table) {
  table.matrix_f32 = matrix<float>;
  table.matrix_indirect_a = matrix_indirect<Indirect::a>;
  table.matrix_indirect_b = matrix_indirect<Indirect::b>;
  table.matrix_f64 = matrix<double>;
  table.matrix_i32 = matrix_integer<int32_t, uint32_t>;
  table.matrix_i64 = matrix_integer<int64_t, uint64_t>;
}

} // namespace FTM_ISA
} // namespace ftm
