// FOLD (col2im): adds windows to the elements of the feature map that they cover.
#include <cstring>
#include <vector>

#include "checker.h"
#include "core_state.h"
#include "isa_gen.h"

namespace ftm {
namespace {

using Wide = __int128;

// One dimension of the feature map: tap k of window o covers element places[k * windows + o], or
// none if that is -1.
struct Side {
  int64_t taps, windows, size;
  std::vector<int64_t> places;
};

int64_t positive(Core& core, const Source& value, int64_t most, const char* what) {
  const int64_t n = core.value(value);
  if (n < 1 || n > most)
    throw Fault(
        std::string(what) + " " + std::to_string(n) + " is not between 1 and " +
        std::to_string(most));
  return n;
}

// For one tap of each window, flat over all dimensions: the elements that it covers, or -1.
void see(const std::vector<Side>& sides, int64_t tap, std::vector<int64_t>& seen) {
  seen.assign(1, 0);
  std::vector<int64_t> wider;
  int64_t inside = 1;
  for (const Side& side : sides) inside *= side.taps;
  for (const Side& side : sides) {
    inside /= side.taps;
    const int64_t* places = side.places.data() + tap / inside % side.taps * side.windows;
    wider.clear();
    for (const int64_t before : seen)
      for (int64_t o = 0; o < side.windows; ++o)
        wider.push_back(before < 0 || places[o] < 0 ? -1 : before * side.size + places[o]);
    seen.swap(wider);
  }
}

template <class T>
void sum(
    uint8_t* to, const uint8_t* from, const std::vector<int64_t>& seen, int64_t images,
    int64_t size) {
  T* y = reinterpret_cast<T*>(to);
  const T* x = reinterpret_cast<const T*>(from);
  const int64_t windows = int64_t(seen.size());
  for (int64_t n = 0; n < images; ++n, y += size, x += windows)
    for (int64_t o = 0; o < windows; ++o)
      if (seen[o] >= 0) y[seen[o]] += x[o];
}

} // namespace

void run_fold(Core& core, const Windows& operands) {
  const Matrix& tiles = operands.tiles;
  const auto [s, d, from_number, to_number, from, to] = core.pair(tiles);
  const int count = operands.row_dims;
  std::vector<Side> sides(count);
  int64_t taps = 1, windows = 1, size = 1;
  for (int k = 0; k < count; ++k) {
    const DmaDim &tap = operands.dims[k], &window = operands.dims[count + k],
                 &image = operands.dims[2 * count + k];
    Side& side = sides[k];
    side.taps = positive(core, tap.extent, s.rows / taps, "the number of taps");
    side.windows = positive(core, window.extent, s.columns / windows, "the number of windows");
    side.size = positive(core, image.extent, d.columns / size, "the size of the image");
    taps *= side.taps;
    windows *= side.windows;
    size *= side.size;
    const Wide spacing = positive(core, tap.stride, INT64_MAX, "the distance of taps");
    const Wide stride = positive(core, window.stride, INT64_MAX, "the distance of windows");
    const Wide before = core.value(image.stride);
    for (int64_t t = 0; t < side.taps; ++t)
      for (int64_t o = 0; o < side.windows; ++o) {
        const Wide place = o * stride + t * spacing - before;
        side.places.push_back(place < 0 || place >= side.size ? -1 : int64_t(place));
      }
  }
  if (from.rows % taps || from.columns % windows)
    throw Fault(
        s.name + ", which holds " + extents(from.rows, from.columns) +
        ", has no whole channels of " + std::to_string(taps) + " taps, or images of " +
        std::to_string(windows) + " windows");
  const int64_t channels = from.rows / taps, images = from.columns / windows;
  if (channels > d.rows || images * size > d.columns)
    throw Fault(
        "the images " + extents(channels, images * size) + " exceed tile " + d.name +
        ", which is " + extents(d.rows, d.columns));
  core.refuse_overlap("Y", tiles.b.tile, to_number, tiles.a.tile, from_number);
  if (core.checker) core.checker->rearrange(tiles, from_number, to_number, channels, images * size);
  to.set_extents(channels, images * size);
  const int64_t bytes = type_bytes(s.type);
  for (int64_t c = 0; c < channels; ++c)
    std::memset(to.base + c * d.columns * bytes, 0, images * size * bytes);
  std::vector<int64_t> seen;
  for (int64_t t = 0; t < taps; ++t) {
    see(sides, t, seen);
    for (int64_t c = 0; c < channels; ++c) {
      uint8_t* y = to.base + c * d.columns * bytes;
      const uint8_t* x = from.base + (c * taps + t) * s.columns * bytes;
      switch (s.type) {
        case Type::F32: sum<float>(y, x, seen, images, size); break;
        case Type::F64: sum<double>(y, x, seen, images, size); break;
        case Type::I32: sum<uint32_t>(y, x, seen, images, size); break;
        default: sum<uint64_t>(y, x, seen, images, size); break;
      }
    }
  }
}

} // namespace ftm
