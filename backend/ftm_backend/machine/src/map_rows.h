// Runs a map whose body is one translated function. The function loops over rows, so there is one
// call for many rows. It leaves the lanes of reductions, which are added up here.
#pragma once

#include <algorithm>

#include "core_state.h"
#include "isa_gen.h"
#include "map_sums.h"
#include "native/frame.h"

namespace ftm {

class MapRows {
 public:
  MapRows(
      Core& core, const MapPlan& plan, const StripCode& code, MapSums& sums, native::Frame& frame)
      : run_(core.program->code.run(code.ops[0].address)),
        plan_(plan),
        code_(code),
        s_(*core.map_scratch),
        sums_(sums),
        frame_(frame) {}

  void run(int64_t rows, int64_t columns) {
    // The elements of a strip are added in float32, and strips in float64.
    const int64_t width = code_.sums.empty() ? columns : plan_.strip;
    if (columns <= width) return run_block(0, 0, rows, columns, true);
    for (int64_t row = 0; row < rows; ++row) {
      for (uint16_t k : code_.sums)
        if (has_rows(k)) sums_.row(k) = sums_.row_start(k, row);
      const int64_t whole = columns / width * width;
      run_block(row, 0, columns / width, width, false);
      if (whole < columns) run_block(row, whole, 1, columns - whole, false);
      for (uint16_t k : code_.sums)
        if (has_rows(k)) sums_.finish_row(k, row, sums_.row(k));
    }
  }

 private:
  // Rows that a call handles if it has reductions, so that their lanes stay in the nearest cache.
  static constexpr int64_t kMostRows = 32;

  bool has_rows(uint16_t k) const { return plan_.outputs[k].scope == isa::FTM_SCOPE_R; }

  // Runs `count` pieces of `columns` elements from an element on. They lie below each other (down)
  // or next to each other.
  void run_block(int64_t row, int64_t column, int64_t count, int64_t columns, bool down) {
    for (size_t k = 0; k < s_.inputs.size(); ++k) {
      const MapOperand& in = s_.inputs[k];
      const int64_t row_step = plan_.inputs[k].access == isa::FTM_ACCESS_ROW ? 0 : in.row_bytes;
      const int64_t step = plan_.inputs[k].access == isa::FTM_ACCESS_COL ? 0 : in.bytes;
      s_.input_pointers[k] = in.base + row * row_step + column * step;
      s_.input_steps[k] = down ? row_step : columns * step;
    }
    for (size_t k = 0; k < s_.outputs.size(); ++k) {
      const MapOperand& out = s_.outputs[k];
      s_.output_pointers[k] = out.base + row * out.row_bytes + column * out.bytes;
      s_.output_steps[k] = down ? out.row_bytes : columns * out.bytes;
    }
    frame_.columns = columns;
    const int64_t most = code_.sums.empty() ? count : kMostRows;
    for (int64_t first = 0; first < count; first += most) {
      const int64_t rows = std::min(most, count - first);
      frame_.rows = rows;
      frame_.lanes = lanes_;
      run_(&frame_);
      add_lanes(row + first, rows, down);
      advance(s_.input_pointers, s_.input_steps, rows);
      advance(s_.output_pointers, s_.output_steps, rows);
    }
  }

  static void advance(
      std::vector<uint8_t*>& pointers, const std::vector<int64_t>& steps, int64_t rows) {
    for (size_t k = 0; k < pointers.size(); ++k) pointers[k] += steps[k] * rows;
  }

  void add_lanes(int64_t row, int64_t rows, bool down) {
    const int64_t step = native::kSumLanes * int64_t(code_.sums.size());
    const float* lanes = lanes_;
    for (uint16_t k : code_.sums) {
      const FoldFn fold = kernels().fold[int(plan_.outputs[k].reduction)];
      if (!has_rows(k)) {
        fold(sums_.all(k), 0, lanes, step, rows);
      } else if (!down) {
        fold(&sums_.row(k), 0, lanes, step, rows);
      } else {
        Accumulator each[kMostRows];
        sums_.start_rows(k, row, rows, each);
        fold(each, 1, lanes, step, rows);
        sums_.finish_rows(k, row, rows, each);
      }
      lanes += native::kSumLanes;
    }
  }

  const native::RunFn run_;
  const MapPlan& plan_;
  const StripCode& code_;
  MapScratch& s_;
  MapSums& sums_;
  native::Frame& frame_;
  alignas(64) float lanes_[kMostRows * native::kMostSums * native::kSumLanes];
};

} // namespace ftm
