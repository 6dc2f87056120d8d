// Copies between two n-dimensional strided layouts, with a loop for each shape that programs use:
// long runs, short runs, repeated elements, transposes, and others.
#include "strided_copy.h"

#include <cstring>

#include "kernels/table.h"

namespace ftm {
namespace {

// Inner loops; strides in elements of T.

// Every second element, as a pooling with a stride of 2 loads: a constant step lets the compiler
// shuffle vectors.
template <class T>
void every_second(T* __restrict to, const T* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
}

template <class T>
void strided(T* to, const T* from, int64_t n, int64_t to_step, int64_t from_step) {
  if (to_step == 1 && from_step == 2) return every_second(to, from, n);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const T a = from[0], b = from[from_step], c = from[2 * from_step], d = from[3 * from_step];
    to[0] = a;
    to[to_step] = b;
    to[2 * to_step] = c;
    to[3 * to_step] = d;
    to += 4 * to_step;
    from += 4 * from_step;
  }
  for (; i < n; ++i, to += to_step, from += from_step) *to = *from;
}

// Rows of N elements, with the given steps between neighbors: the windows of a small image.
template <class T, int N>
void short_rows(uint8_t* to, const uint8_t* from, const CopyDim& rows, const CopyDim& row) {
  T* t = reinterpret_cast<T*>(to);
  const T* f = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < rows.extent; ++i, t += rows.to, f += rows.from) {
    T x[N];
#pragma GCC unroll 8
    for (int k = 0; k < N; ++k) x[k] = f[k * row.from];
#pragma GCC unroll 8
    for (int k = 0; k < N; ++k) t[k * row.to] = x[k];
  }
}

constexpr int64_t kShortRow = 8;

template <class T>
void short_rows(uint8_t* to, const uint8_t* from, const CopyDim& rows, const CopyDim& row) {
  switch (row.extent) {
    case 2: return short_rows<T, 2>(to, from, rows, row);
    case 3: return short_rows<T, 3>(to, from, rows, row);
    case 4: return short_rows<T, 4>(to, from, rows, row);
    case 5: return short_rows<T, 5>(to, from, rows, row);
    case 6: return short_rows<T, 6>(to, from, rows, row);
    case 7: return short_rows<T, 7>(to, from, rows, row);
    default: return short_rows<T, kShortRow>(to, from, rows, row);
  }
}

void short_rows(
    uint8_t* to, const uint8_t* from, const CopyDim& rows, const CopyDim& row, int64_t bytes) {
  switch (bytes) {
    case 1: return short_rows<uint8_t>(to, from, rows, row);
    case 2: return short_rows<uint16_t>(to, from, rows, row);
    case 4: return short_rows<uint32_t>(to, from, rows, row);
    default: return short_rows<uint64_t>(to, from, rows, row);
  }
}

template <class T>
void repeat(T* to, const T* from, int64_t n) {
  const T x = *from;
  for (int64_t i = 0; i < n; ++i) to[i] = x;
}

// Copies runs of a small fixed number of bytes by a few moves instead of a call.
template <int Bytes>
void short_runs(
    uint8_t* to, const uint8_t* from, int64_t count, int64_t to_step, int64_t from_step) {
  for (int64_t i = 0; i < count; ++i, to += to_step, from += from_step) {
    uint8_t t[Bytes];
    std::memcpy(t, from, Bytes);
    std::memcpy(to, t, Bytes);
  }
}

// Copies 16 to 128 bytes: whole vectors, then one that ends with the run.
void middle_runs(
    uint8_t* to, const uint8_t* from, int64_t bytes, int64_t count, int64_t to_step,
    int64_t from_step) {
  for (int64_t i = 0; i < count; ++i, to += to_step, from += from_step) {
    uint8_t t[16];
    for (int64_t b = 0; b + 16 <= bytes; b += 16) {
      std::memcpy(t, from + b, 16);
      std::memcpy(to + b, t, 16);
    }
    std::memcpy(t, from + bytes - 16, 16);
    std::memcpy(to + bytes - 16, t, 16);
  }
}

void runs(
    uint8_t* to, const uint8_t* from, int64_t bytes, int64_t count, int64_t to_step,
    int64_t from_step) {
  switch (bytes) {
    case 4: return short_runs<4>(to, from, count, to_step, from_step);
    case 8: return short_runs<8>(to, from, count, to_step, from_step);
    case 12: return short_runs<12>(to, from, count, to_step, from_step);
    case 16: return short_runs<16>(to, from, count, to_step, from_step);
    case 24: return short_runs<24>(to, from, count, to_step, from_step);
    case 32: return short_runs<32>(to, from, count, to_step, from_step);
    case 64: return short_runs<64>(to, from, count, to_step, from_step);
    default: break;
  }
  if (bytes >= 16 && bytes <= 128) return middle_runs(to, from, bytes, count, to_step, from_step);
  for (int64_t i = 0; i < count; ++i, to += to_step, from += from_step)
    std::memcpy(to, from, size_t(bytes));
}

template <class T>
void inner(uint8_t* to, const uint8_t* from, const CopyDim& d) {
  T* t = reinterpret_cast<T*>(to);
  const T* f = reinterpret_cast<const T*>(from);
  if (d.to == 1 && d.from == 0) repeat(t, f, d.extent);
  else strided(t, f, d.extent, d.to, d.from);
}

void inner(uint8_t* to, const uint8_t* from, const CopyDim& d, int64_t bytes) {
  switch (bytes) {
    case 1: return inner<uint8_t>(to, from, d);
    case 2: return inner<uint16_t>(to, from, d);
    case 4: return inner<uint32_t>(to, from, d);
    default: return inner<uint64_t>(to, from, d);
  }
}

int log2_of(int64_t bytes) {
  return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
}

} // namespace

int simplify(CopyDim* dims, int count) {
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    const CopyDim d = dims[i];
    if (d.extent == 0) return -1;
    if (d.extent == 1) continue;
    CopyDim* outer = kept ? &dims[kept - 1] : nullptr;
    // Modulo 2^64: strides of that size lead out of the buffer, which is detected elsewhere.
    const auto spans = [&](int64_t step) { return int64_t(uint64_t(step) * uint64_t(d.extent)); };
    if (outer && outer->to == spans(d.to) && outer->from == spans(d.from)) {
      *outer = {outer->extent * d.extent, d.to, d.from};
      continue;
    }
    dims[kept++] = d;
  }
  return kept;
}

void copy_elements(
    uint8_t* to, const uint8_t* from, const CopyDim* dims, int count, int64_t bytes, bool ordered) {
  if (count == 0) {
    std::memcpy(to, from, size_t(bytes));
    return;
  }
  const CopyDim& last = dims[count - 1];
  const bool run = last.to == 1 && last.from == 1;
  // Inner loops that need no counters: a transpose, two loops around a run or a short row, or one.
  int across = -1;
  if (!run && !ordered)
    for (int k = count - 2; k >= 0 && across < 0; --k)
      if ((last.to == 1 && dims[k].from == 1) || (last.from == 1 && dims[k].to == 1)) across = k;
  if (across >= 0 && (last.extent < 4 || dims[across].extent < 4)) across = -1;
  const bool rows = across < 0 && count >= 2 && (run || last.extent <= kShortRow);
  const CopyDim block = rows && count >= 3 ? dims[count - 3] : CopyDim{1, 0, 0};

  CopyDim loops[32];
  int depth = 0;
  for (int k = 0; k < count - (rows ? 3 : 1); ++k)
    if (k != across) loops[depth++] = dims[k];
  int64_t index[32] = {};
  for (;;) {
    if (across >= 0) {
      const CopyDim& o = dims[across];
      const TransposeFn transpose = kernels().transpose[log2_of(bytes)];
      if (o.from == 1) transpose(to, o.to, from, last.from, last.extent, o.extent);
      else transpose(to, last.to, from, o.from, o.extent, last.extent);
    } else if (rows) {
      const CopyDim& o = dims[count - 2];
      for (int64_t i = 0; i < block.extent; ++i) {
        uint8_t* const t = to + i * block.to * bytes;
        const uint8_t* const f = from + i * block.from * bytes;
        if (run) runs(t, f, last.extent * bytes, o.extent, o.to * bytes, o.from * bytes);
        else short_rows(t, f, o, last, bytes);
      }
    } else if (run) {
      std::memcpy(to, from, size_t(last.extent * bytes));
    } else {
      inner(to, from, last, bytes);
    }
    int k = depth - 1;
    for (; k >= 0; --k) {
      to += loops[k].to * bytes;
      from += loops[k].from * bytes;
      if (++index[k] < loops[k].extent) break;
      to -= loops[k].to * bytes * loops[k].extent;
      from -= loops[k].from * bytes * loops[k].extent;
      index[k] = 0;
    }
    if (k < 0) return;
  }
}

} // namespace ftm
