// Cells of a map while it runs: operands that are one number for a strip or for the whole map.
#pragma once

#include <cstring>

#include "reduction_state.h"
#include "core_state.h"
#include "isa_gen.h"
#include "map_scratch.h"

namespace ftm {

class MapCells {
 public:
  MapCells(Core& core, const MapPlan& plan)
      : core_(core),
        plan_(plan),
        table_(kernels()),
        inputs_(core.map_scratch->inputs),
        values_(core.map_scratch->cells),
        pointers_(core.map_scratch->cell_pointers) {}

  uint64_t value(size_t index) const { return values_[index]; }
  const void* data(size_t index) const { return &values_[index]; }
  uint8_t* const* pointers() const { return pointers_.data(); }

  // Returns a cell of type I64 that is constant over the map.
  int64_t constant(uint16_t index) const {
    const Cell& c = plan_.cells[index];
    return c.from == Cell::From::Scalar     ? core_.r[64 + c.index]
           : c.from == Cell::From::Register ? core_.r[c.index]
           : c.from == Cell::From::One      ? element_at<int64_t>(inputs_[c.index].base)
                                            : int64_t(c.bits);
  }

  // Called before the first strip; cells that change per row are set by `load`.
  void fill() {
    values_.assign(plan_.cells.size() + 8, 0); // 8 elements of slack
    pointers_.resize(plan_.cells.size());
    for (size_t k = 0; k < plan_.cells.size(); ++k) {
      pointers_[k] = reinterpret_cast<uint8_t*>(&values_[k]);
      const Cell& c = plan_.cells[k];
      switch (c.from) {
        case Cell::From::Bits: values_[k] = c.bits; break;
        case Cell::From::One: load(uint16_t(k), inputs_[c.index].base); break;
        case Cell::From::Scalar:
          convert(k, core_.program->scalar_types[c.index], core_.r[64 + c.index]);
          break;
        case Cell::From::Register: convert(k, Type::I64, core_.r[c.index]); break;
        case Cell::From::Column: break;
      }
    }
  }

  // Sets a cell to the element at `at`.
  void load(uint16_t index, const uint8_t* at) {
    const Cell& c = plan_.cells[index];
    if (is_half(c.round))
      table_.load_half[int(c.round) - int(Type::F16)](&values_[index], at, nullptr, nullptr, 1);
    else std::memcpy(&values_[index], at, size_t(type_bytes(c.type)));
  }

 private:
  void convert(size_t k, Type from, int64_t bits) {
    const Cell& c = plan_.cells[k];
    alignas(64) int64_t source[9] = {bits};
    if (from == c.type) values_[k] = uint64_t(bits);
    else table_.convert[int(from)][int(c.type)](&values_[k], source, nullptr, nullptr, 1);
    if (is_half(c.round))
      table_.convert[int(Type::F32)][int(c.round)](&values_[k], &values_[k], nullptr, nullptr, 1);
  }

  Core& core_;
  const MapPlan& plan_;
  const KernelTable& table_;
  std::vector<MapOperand>& inputs_;
  std::vector<uint64_t>& values_;
  std::vector<uint8_t*>& pointers_;
};

} // namespace ftm
