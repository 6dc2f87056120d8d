// Reductions of a map while it runs: their states, from start values to results.
#pragma once

#include <algorithm>

#include "reduction_state.h"
#include "isa_gen.h"
#include "map_scratch.h"

namespace ftm {

class MapSums {
 public:
  MapSums(Core& core, const MapPlan& plan)
      : plan_(plan),
        table_(kernels()),
        memory_(core.sums),
        outputs_(core.map_scratch->outputs),
        rows_(core.map_scratch->row_sums),
        sums_(core.map_scratch->sums) {}

  // State of output k: of the current row (scope R), of all elements (A), or the first of one per
  // column (C).
  Accumulator& row(size_t k) { return rows_[k]; }
  Accumulator* all(size_t k) { return sums_[k]; }

  Accumulator row_start(size_t k, int64_t row) const { return start_of(k, row_place(k, row)); }
  void finish_row(size_t k, int64_t row, const Accumulator& acc) {
    ftm::finish(acc, plan_.outputs[k].type, row_place(k, row));
  }
  // The same for `count` rows from `row` on.
  void start_rows(size_t k, int64_t row, int64_t count, Accumulator* to) const {
    const MapOutput& out = plan_.outputs[k];
    if (!out.accumulate) std::fill(to, to + count, identity(out.reduction, out.type));
    else
      for (int64_t i = 0; i < count; ++i) to[i] = resume(out.type, row_place(k, row + i));
  }
  void finish_rows(size_t k, int64_t row, int64_t count, const Accumulator* from) {
    const Type type = plan_.outputs[k].type;
    uint8_t* place = row_place(k, row);
    const int64_t step = outputs_[k].row_bytes;
    if (type == Type::F32)
      for (int64_t i = 0; i < count; ++i) put_element(place + i * step, float(from[i].f));
    else
      for (int64_t i = 0; i < count; ++i) ftm::finish(from[i], type, place + i * step);
  }

  // Called before the first strip of a map of `columns` columns.
  void start(int64_t columns) {
    columns_ = columns;
    int64_t count = 0;
    for (size_t k = 0; k < outputs_.size(); ++k) count += sums_of(k) * (has_partial(k) ? 2 : 1);
    Accumulator* next = count ? reinterpret_cast<Accumulator*>(memory_.ensure(count * 8)) : nullptr;
    sums_.clear();
    rows_.resize(outputs_.size());
    for (size_t k = 0; k < outputs_.size(); ++k) {
      sums_.push_back(next);
      start_columns(k, next, sums_of(k));
      next += sums_of(k) * (has_partial(k) ? 2 : 1);
    }
  }

  // Adds one row to a column reduction. Float sums go through a float32 row for kPartialRows rows,
  // like KernelTable::columns: adding to float64 costs several times as much.
  void add_to_columns(
      size_t k, int64_t row, int64_t rows, int64_t column, const uint8_t* from, int64_t n) {
    const MapOutput& out = plan_.outputs[k];
    const int type = int(strip_type(out.type)), op = int(out.reduction);
    if (!has_partial(k)) return table_.columns[op][type](sums_[k] + column, from, 1, n);
    float* partial = reinterpret_cast<float*>(sums_[k] + columns_);
    const bool first = row % kPartialRows == 0,
               last = row % kPartialRows == kPartialRows - 1 || row + 1 == rows;
    if (first) table_.strip[int(Op::Mov)][type][0](partial + column, from, nullptr, nullptr, n);
    else table_.strip[int(Op::Add)][type][0](partial + column, partial + column, from, nullptr, n);
    if (last) table_.columns[op][type](sums_[k] + column, partial + column, 1, n);
  }

  // Called after the last strip.
  void finish() {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const Type type = plan_.outputs[k].type;
      const int64_t n = sums_of(k);
      if (is_half(type)) {
        for (int64_t i = 0; i < n; ++i) ftm::finish(sums_[k][i], type, outputs_[k].base + 2 * i);
      } else if (n > 0) {
        table_.convert[int(is_float(type) ? Type::F64 : Type::I64)][int(type)](
            outputs_[k].base, sums_[k], nullptr, nullptr, n);
      }
    }
  }

 private:
  static constexpr int64_t kPartialRows = 32;

  Accumulator start_of(size_t k, const uint8_t* place) const {
    const MapOutput& out = plan_.outputs[k];
    return out.accumulate ? resume(out.type, place) : identity(out.reduction, out.type);
  }
  uint8_t* row_place(size_t k, int64_t row) const {
    return outputs_[k].base + row * outputs_[k].row_bytes;
  }

  bool has_partial(size_t k) const {
    const MapOutput& out = plan_.outputs[k];
    return out.scope == isa::FTM_SCOPE_C && out.reduction == Reduction::Sum &&
           strip_type(out.type) == Type::F32;
  }

  int64_t sums_of(size_t k) const {
    const uint8_t scope = plan_.outputs[k].scope;
    return scope == isa::FTM_SCOPE_A ? 1 : scope == isa::FTM_SCOPE_C ? columns_ : 0;
  }

  // Sets n states from a row of the tile: strip conversions, except for halves.
  void start_columns(size_t k, Accumulator* to, int64_t n) {
    const MapOutput& out = plan_.outputs[k];
    if (!out.accumulate) {
      std::fill(to, to + n, identity(out.reduction, out.type));
    } else if (is_half(out.type)) {
      for (int64_t i = 0; i < n; ++i) to[i] = resume(out.type, outputs_[k].base + 2 * i);
    } else {
      table_.convert[int(out.type)][int(is_float(out.type) ? Type::F64 : Type::I64)](
          to, outputs_[k].base, nullptr, nullptr, n);
    }
  }

  const MapPlan& plan_;
  const KernelTable& table_;
  Memory& memory_;
  const std::vector<MapOperand>& outputs_;
  std::vector<Accumulator>& rows_;
  std::vector<Accumulator*>& sums_;
  int64_t columns_ = 0;
};

} // namespace ftm
