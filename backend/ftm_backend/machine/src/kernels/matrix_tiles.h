// Products of bfloat16 in AMX's tile registers, with sums in float32.
//
// A tile register has 16 rows of 64 bytes. One instruction multiplies 16 x 32 numbers of A by 32 x
// 16 of B, so it takes as long as one vector multiplication of 16 pairs takes for each row of A.
// 2 x 2 tiles of C stay in registers while k runs. A is read where it lies. B is packed: for each
// 16 columns, one row of 16 pairs for each two k, zeros up to a multiple of 32 k.
//
// Tiles treat subnormal numbers as 0, in operands and results, and round to nearest even, as
// AVX512-BF16 does. They add the products of even and of odd k separately, then both to C, so the
// last bits of sums differ from AVX512-BF16's.
#pragma once

#include <algorithm>

#include "kernels/table.h"
#include "kernels/transpose_registers.h"

namespace ftm {
namespace FTM_ISA {

constexpr int64_t kTileRows = 16, kTileBytes = 64;
constexpr int64_t kTileDepth = 32; // numbers of k in a tile
constexpr int64_t kTileSize = kTileRows * kTileBytes;
constexpr int64_t kBlock = 32; // rows and columns of C in registers

// The intrinsics do not tell the compiler what memory they read: this makes it write all first.
FTM_INLINE void publish(const void* memory) {
  asm volatile("" : : "r"(memory) : "memory");
}

// Use of the tile registers: 0 to 3 are C (row-major 2 x 2), 4 and 5 A, 6 and 7 B. Releases them at
// its end, or each switch of threads would save 8 KB.
class Tiles {
 public:
  Tiles() = default;
  ~Tiles() {
    if (rows_) _tile_release();
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Sets the extents of C, at most kBlock each.
  void configure(int64_t rows, int64_t columns) {
    if (rows == rows_ && columns == columns_) return;
    rows_ = rows;
    columns_ = columns;
    alignas(64) Config config;
    for (int i = 0; i < 2; ++i) {
      const int64_t height = std::clamp(rows - i * kTileRows, int64_t{0}, kTileRows);
      config.set(4 + i, height, kTileBytes);
      config.set(6 + i, kTileRows, row_bytes_of(columns, i));
      for (int j = 0; j < 2; ++j) config.set(2 * i + j, height, row_bytes_of(columns, j));
    }
    publish(&config);
    _tile_loadconfig(&config);
  }

 private:
  struct Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    // A tile with neither rows nor columns must have zeros for both.
    void set(int tile, int64_t height, int64_t width) {
      rows[tile] = uint8_t(width ? height : 0);
      row_bytes[tile] = uint16_t(height ? width : 0);
    }
  };
  static_assert(sizeof(Config) == 64);

  // Bytes of a row of the i-th of two tiles that have `columns` numbers of 4 bytes.
  static int64_t row_bytes_of(int64_t columns, int64_t i) {
    return std::clamp(4 * columns - i * kTileBytes, int64_t{0}, kTileBytes);
  }

  int64_t rows_ = 0, columns_ = 0; // of C; 0: not configured
};

// Operands of a block of C, in bytes. `steps` blocks of A's columns are read where they lie; a last
// one, if `rest` is not null, from there, 64 bytes a row.
struct TileBlock {
  int64_t steps;
  const uint8_t* a;
  int64_t a_row;
  const uint8_t* rest;
  const uint8_t* b;
  int64_t b_panel; // between the two tiles of B
  float* c;
  int64_t c_row; // elements
  bool acc;
};

// Loads tiles of A and B for one step, and multiplies all pairs of them.
template <int TileRows, int TileColumns>
FTM_INLINE void multiply_tiles(const uint8_t* a, int64_t a_row, const uint8_t* b, int64_t b_panel) {
  _tile_loadd(4, a, a_row);
  _tile_loadd(6, b, kTileBytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (TileColumns == 2) {
    _tile_loadd(7, b + b_panel, kTileBytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (TileRows == 2) {
    _tile_loadd(5, a + kTileRows * a_row, a_row);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (TileColumns == 2) _tile_dpbf16ps(3, 5, 7);
  }
}

// Computes a block of TileRows x TileColumns tiles of C.
template <int TileRows, int TileColumns>
void tile_block(const TileBlock& x) {
  const int64_t row = x.c_row * 4;
  float* const below = x.c + kTileRows * x.c_row;
  _tile_zero(0);
  if constexpr (TileColumns == 2) _tile_zero(1);
  if constexpr (TileRows == 2) _tile_zero(2);
  if constexpr (TileRows == 2 && TileColumns == 2) _tile_zero(3);
  if (x.acc) {
    _tile_loadd(0, x.c, row);
    if constexpr (TileColumns == 2) _tile_loadd(1, x.c + 16, row);
    if constexpr (TileRows == 2) _tile_loadd(2, below, row);
    if constexpr (TileRows == 2 && TileColumns == 2) _tile_loadd(3, below + 16, row);
  }
  const uint8_t *a = x.a, *b = x.b;
  for (int64_t s = 0; s < x.steps; ++s, a += kTileBytes, b += kTileSize)
    multiply_tiles<TileRows, TileColumns>(a, x.a_row, b, x.b_panel);
  if (x.rest) multiply_tiles<TileRows, TileColumns>(x.rest, kTileBytes, b, x.b_panel);
  _tile_stored(0, x.c, row);
  if constexpr (TileColumns == 2) _tile_stored(1, x.c + 16, row);
  if constexpr (TileRows == 2) _tile_stored(2, below, row);
  if constexpr (TileRows == 2 && TileColumns == 2) _tile_stored(3, below + 16, row);
}

FTM_INLINE int64_t tile_steps(int64_t k) {
  return (k + kTileDepth - 1) / kTileDepth;
}
FTM_INLINE __mmask32 first_lanes(int64_t count) {
  return __mmask32((uint64_t{1} << std::clamp(count, int64_t{0}, int64_t{32})) - 1);
}

static void matrix_tiles(
    int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t lda, const uint8_t* b, float* c,
    int64_t ldc, bool acc) {
  // Long sums are split so that the rows of A which column blocks share stay in the nearest cache.
  constexpr int64_t kMostSteps = 16;
  using Block = void (*)(const TileBlock&);
  static constexpr Block kBlocks[2][2] = {
      {tile_block<1, 1>, tile_block<1, 2>}, {tile_block<2, 1>, tile_block<2, 2>}};
  const int64_t all = tile_steps(k), panel = all * kTileSize, odd = k % kTileDepth;
  alignas(64) uint8_t rest[kBlock * kTileBytes];
  Tiles tiles;
  for (int64_t p = 0; p == 0 || p < all; p += kMostSteps) {
    const int64_t steps = std::min(all - p, kMostSteps);
    const bool has_rest = odd && p + steps == all;
    for (int64_t i = 0; i < m; i += kBlock) {
      const int64_t rows = std::min(m - i, kBlock);
      if (has_rest)
        for (int64_t r = 0; r < rows; ++r)
          _mm512_store_si512(
              rest + r * kTileBytes,
              _mm512_maskz_loadu_epi16(first_lanes(odd), a + (i + r) * lda + k - odd));
      publish(rest);
      for (int64_t j = 0; j < n; j += kBlock) {
        const int64_t columns = std::min(n - j, kBlock);
        tiles.configure(rows, columns);
        kBlocks[rows > kTileRows][columns > 16](
            {steps - has_rest, reinterpret_cast<const uint8_t*>(a + i * lda + p * kTileDepth),
             lda * 2, has_rest ? rest : nullptr, b + j / 16 * panel + p * kTileSize, panel,
             c + i * ldc + j, ldc, acc || p > 0});
      }
    }
  }
}

// Packs rows 2p and 2p + 1 of 32 columns of B.
static void pack_tile_columns(
    uint8_t* d, const uint16_t* s, int64_t lds, int64_t k, int64_t columns) {
  const __m512i left = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i right = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __mmask32 present = first_lanes(columns);
  const int64_t panel = tile_steps(k) * kTileSize;
  for (int64_t p = 0; 2 * p < k; ++p, s += 2 * lds) {
    const __mmask32 odd = 2 * p + 1 < k ? present : 0;
    const __m512i first = _mm512_maskz_loadu_epi16(present, s);
    const __m512i second = _mm512_maskz_loadu_epi16(odd, s + lds);
    const __m512i low = _mm512_unpacklo_epi16(first, second);
    const __m512i high = _mm512_unpackhi_epi16(first, second);
    uint8_t* const to = d + p * kTileBytes;
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, left, high));
    _mm512_storeu_si512(to + panel, _mm512_permutex2var_epi64(low, right, high));
  }
}

// Packs up to 16 rows of B's transpose, whose pairs are adjacent.
static void pack_tile_rows(uint8_t* d, const uint16_t* s, int64_t lds, int64_t k, int64_t columns) {
  for (int64_t p = 0; p < k; p += kTileDepth, d += kTileSize) {
    const __mmask32 present = first_lanes(k - p);
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      r[i] = _mm512_maskz_loadu_epi16(i < columns ? present : 0, s + i * lds + p);
    transpose_registers(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(d + i * kTileBytes, r[i]);
  }
}

static int64_t packed_bytes(int64_t n, int64_t k) {
  return (n + kBlock - 1) / kBlock * 2 * tile_steps(k) * kTileSize;
}

static void pack_tiles(
    uint8_t* d, const uint16_t* s, int64_t lds, int64_t k, int64_t n, bool transposed) {
  const int64_t panel = tile_steps(k) * kTileSize;
  if (transposed) {
    for (int64_t j = 0; j < n; j += 16)
      pack_tile_rows(d + j / 16 * panel, s + j * lds, lds, k, std::min<int64_t>(n - j, 16));
    return;
  }
  const int64_t pairs = (k + 1) / 2;
  for (int64_t j = 0; j < n; j += kBlock) {
    uint8_t* const to = d + j / 16 * panel;
    pack_tile_columns(to, s + j, lds, k, std::min(n - j, kBlock));
    for (int64_t tile = 0; tile < 2; ++tile)
      std::memset(to + tile * panel + pairs * kTileBytes, 0, size_t(panel - pairs * kTileBytes));
  }
}

} // namespace FTM_ISA
} // namespace ftm
