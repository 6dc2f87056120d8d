// Runs a compiled map over a tile: cuts it into strips and calls the body's operations on each.
#include <algorithm>
#include <cstring>

#include "checker.h"
#include "core_state.h"
#include "isa_gen.h"
#include "map_cells.h"
#include "map_rows.h"
#include "map_sums.h"

namespace ftm {
namespace {

// Narrower rows are gathered into strips of several rows, even if that needs copies.
constexpr int64_t kNarrow = 48;
// The same for bodies whose function loops over rows: a row is shorter than a vector.
constexpr int64_t kLeastRow = 16;

class MapRun {
 public:
  MapRun(Core& core, const MapPlan& plan, int64_t rows, int64_t columns)
      : core_(core),
        plan_(plan),
        table_(kernels()),
        rows_(rows),
        columns_(columns),
        scratch_(*core.map_scratch),
        sums_(core, plan),
        cells_(core, plan) {
    inputs_.clear();
    outputs_.clear();
  }

  void run() {
    if (rows_ < 0 || columns_ < 0)
      throw Fault("extents " + extents(rows_, columns_) + " are negative");
    resolve();
    if (!core_.checker) refer_to_buffers();
    core_.counters.map_elements += uint64_t(rows_ * columns_);
    core_.counters.map_operations += uint64_t(rows_ * columns_) * plan_.strips.along.ops.size();
    sums_.start(all_columns_);
    if (rows_ > 0 && columns_ > 0) {
      choose();
      prepare();
      if (across_) run_across();
      else run_along();
    } else {
      for (size_t k = 0; k < plan_.outputs.size(); ++k)
        if (plan_.outputs[k].scope == isa::FTM_SCOPE_R)
          for (int64_t i = 0; i < all_rows_; ++i) sums_.finish_row(k, i, sums_.row_start(k, i));
    }
    sums_.finish();
    set_extents();
  }

 private:
  void fits(const TileDecl& t, int64_t rows, int64_t columns) const {
    if (rows > t.rows || columns > t.columns)
      throw Fault(
          extents(rows, columns) + " exceeds tile " + t.name + ", which is " +
          extents(t.rows, t.columns));
  }

  void resolve() {
    all_rows_ = rows_;
    all_columns_ = columns_;
    for (const MapInput& in : plan_.inputs) {
      const int64_t rows =
          in.access == isa::FTM_ACCESS_FULL || in.access == isa::FTM_ACCESS_COL ? rows_ : 1;
      const int64_t columns =
          in.access == isa::FTM_ACCESS_FULL || in.access == isa::FTM_ACCESS_ROW ? columns_ : 1;
      const int32_t number =
          core_.slot_number(in.tile, core_.value({in.slot_immediate, in.slot_register}));
      add(inputs_, in.tile, number, rows, columns);
      if (core_.checker) core_.checker->map_input(in.tile, number, rows, columns);
    }
    for (const MapOutput& out : plan_.outputs) {
      const bool tall = out.scope == isa::FTM_SCOPE_FULL || out.scope == isa::FTM_SCOPE_R;
      const bool wide = out.scope == isa::FTM_SCOPE_FULL || out.scope == isa::FTM_SCOPE_C;
      const int32_t number =
          core_.slot_number(out.tile, core_.value({out.slot_immediate, out.slot_register}));
      const int64_t rows = tall ? rows_ : 1, columns = wide ? columns_ : 1;
      add(outputs_, out.tile, number, rows, columns);
      if (core_.checker)
        core_.checker->map_output(plan_, out.tile, number, rows, columns, out.accumulate);
    }
  }

  void add(
      std::vector<MapOperand>& to, int32_t tile, int32_t number, int64_t rows, int64_t columns) {
    const TileDecl& t = core_.tile(tile);
    fits(t, rows, columns);
    Slot& slot = core_.slot(tile, number);
    const int64_t bytes = type_bytes(t.type);
    to.push_back({slot.base, t.columns * bytes, bytes, &slot, rows, columns});
  }

  // Lets inputs refer to buffers, and full outputs that a DST will store.
  void refer_to_buffers() {
    for (MapOperand& in : inputs_)
      if (in.slot->lent) {
        in.base = in.slot->lent;
        in.row_bytes = in.slot->row_bytes;
      }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const TileDecl& t = core_.tile(plan_.outputs[k].tile);
      if (t.stored_by < 0) continue;
      MapOperand& out = outputs_[k];
      MapOperand there = out;
      const Dma& dma = core_.program->store_of(t);
      out.slot->stored =
          find_destination(core_, dma, out.rows, out.columns, there.base, there.row_bytes) &&
          may_overwrite(there, k);
      if (!out.slot->stored) continue;
      note_write(core_, dma.buffer);
      out = there;
    }
  }

  // Whether a strip has read input i before it stores results: the body is one function, which
  // loads all operands of some elements before it stores, and no reduction reads the input later.
  bool is_read_first(const StripCode& code, size_t i) const {
    for (Spot s : code.results)
      if (s.place == Place::Input && s.index == i && !code.whole) return false;
    return code.ops.size() == 1;
  }

  // Whether full output k may be written at `there` while the map reads its inputs.
  bool may_overwrite(const MapOperand& there, size_t k) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const MapOperand& in = inputs_[i];
      if (!in.touches(there)) continue;
      const bool same = plan_.inputs[i].access == isa::FTM_ACCESS_FULL && in.base == there.base &&
                        in.row_bytes == there.row_bytes && in.bytes == there.bytes;
      if (!same || !is_read_first(plan_.native->along, i) ||
          !is_read_first(plan_.native->across, i))
        return false;
    }
    for (size_t i = 0; i < k; ++i)
      if (outputs_[i].touches(there)) return false;
    return true;
  }

  void set_extents() {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const uint8_t scope = plan_.outputs[k].scope;
      outputs_[k].slot->set_extents(
          scope == isa::FTM_SCOPE_FULL || scope == isa::FTM_SCOPE_R ? all_rows_ : 1,
          scope == isa::FTM_SCOPE_FULL || scope == isa::FTM_SCOPE_C ? all_columns_ : 1);
    }
  }

  // --- choice of cut ---

  void choose() {
    dense_ = true;
    for (size_t k = 0; k < inputs_.size(); ++k)
      if (plan_.inputs[k].access == isa::FTM_ACCESS_FULL)
        dense_ &= inputs_[k].row_bytes == columns_ * inputs_[k].bytes;
    for (size_t k = 0; k < outputs_.size(); ++k)
      if (plan_.outputs[k].scope == isa::FTM_SCOPE_FULL)
        dense_ &= outputs_[k].row_bytes == columns_ * outputs_[k].bytes;
    bool flat = plan_.flat && dense_;
    if (flat && plan_.positions && rows_ > 1) flat = positions_are_even();
    if (flat) {
      columns_ *= rows_;
      rows_ = 1;
    }
    const MapBody& body = plan_.native && !core_.checker ? *plan_.native : plan_.strips;
    const int64_t least = body.along.whole && plan_.any_cut ? kLeastRow - 1 : plan_.strip / 2;
    across_ = rows_ > 1 && columns_ <= least && (dense_ || columns_ <= kNarrow);
    code_ = across_ ? &body.across : &body.along;
  }

  // Whether every VIDX continues from the end of a row to the next row with the same step.
  bool positions_are_even() const {
    for (const StripOp& op : plan_.strips.along.ops)
      if (op.kind == Kind::Index &&
          uint64_t(cells_.constant(op.src[1].index)) !=
              uint64_t(cells_.constant(op.src[2].index)) * uint64_t(columns_))
        return false;
    return true;
  }

  void expand(size_t splat, int64_t n) {
    const uint16_t cell = code_->splats[splat];
    const StripFn fill = table_.strip[int(Op::Mov)][int(plan_.cells[cell].type)][1];
    fill(splat_pointers_[splat], cells_.data(cell), nullptr, nullptr, n);
  }

  // --- strips ---

  void prepare() {
    cells_.fill();
    uint8_t* const strips = core_.strips;
    strip_pointers_.clear();
    splat_pointers_.clear();
    for (int64_t offset : code_->strips) strip_pointers_.push_back(strips + offset);
    for (size_t k = 0; k < code_->splats.size(); ++k)
      splat_pointers_.push_back(strips + code_->splat_offset + int64_t(k) * code_->stride);
    input_pointers_.resize(inputs_.size());
    output_pointers_.resize(outputs_.size());
    scratch_.input_steps.resize(inputs_.size());
    scratch_.output_steps.resize(outputs_.size());
    frame_.tables[int(Place::None)] = none_;
    frame_.tables[int(Place::Strip)] = strip_pointers_.data();
    frame_.tables[int(Place::Input)] = input_pointers_.data();
    frame_.tables[int(Place::Output)] = output_pointers_.data();
    frame_.tables[int(Place::Cell)] = cells_.pointers();
    frame_.tables[int(Place::Splat)] = splat_pointers_.data();
    frame_.steps[int(Place::Input)] = scratch_.input_steps.data();
    frame_.steps[int(Place::Output)] = scratch_.output_steps.data();
    const int64_t most = std::min(plan_.strip, rows_ * columns_);
    for (size_t k = 0; k < code_->splats.size(); ++k)
      if (plan_.cells[code_->splats[k]].from != Cell::From::Column) expand(k, most);
    bool snapshots = false;
    for (const MapInput& in : plan_.inputs) snapshots |= in.needs_snapshot();
    if (snapshots) take_snapshots();
  }

  // Copies row inputs that the map may overwrite before their last read.
  void take_snapshots() {
    int64_t bytes = 0;
    for (size_t k = 0; k < inputs_.size(); ++k)
      if (plan_.inputs[k].needs_snapshot()) bytes += columns_ * inputs_[k].bytes + kSlack;
    snapshots_.resize(size_t(bytes));
    uint8_t* at = snapshots_.data();
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!plan_.inputs[k].needs_snapshot()) continue;
      copy_rows(at, 0, inputs_[k].base, 0, 1, columns_ * inputs_[k].bytes);
      inputs_[k].base = at;
      at += columns_ * inputs_[k].bytes + kSlack;
    }
  }

  uint8_t* at(Spot spot) const { return frame_.tables[int(spot.place)][spot.index]; }

  void run_ops(int64_t row, int64_t column, int64_t n) {
    for (const StripOp& op : code_->ops) {
      if (op.kind <= Kind::StoreHalf)
        op.fn(at(op.dst), at(op.src[0]), at(op.src[1]), at(op.src[2]), n);
      else if (op.kind == Kind::Native) run_native(op, n);
      else run_special(op, row, column, n);
    }
  }

  void run_native(const StripOp& op, int64_t n) {
    alignas(64) float lanes[native::kMostSums * native::kSumLanes];
    frame_.columns = n;
    frame_.rows = 1;
    frame_.lanes = lanes;
    core_.program->code.run(op.address)(&frame_);
    for (size_t k = 0; &op == &code_->ops.back() && k < code_->sums.size(); ++k) {
      const uint16_t output = code_->sums[k];
      const MapOutput& out = plan_.outputs[output];
      Accumulator* acc = out.scope == isa::FTM_SCOPE_R ? &sums_.row(output) : sums_.all(output);
      table_.fold[int(out.reduction)](acc, 0, lanes + k * native::kSumLanes, 0, 1);
    }
  }

  void run_special(const StripOp& op, int64_t row, int64_t column, int64_t n) {
    if (op.kind == Kind::Index) {
      int64_t* out = reinterpret_cast<int64_t*>(at(op.dst));
      const auto cell = [&](int k) { return cells_.value(op.src[k].index); };
      const uint64_t start = cell(0) + uint64_t(row) * cell(1) + uint64_t(column) * cell(2);
      const int64_t width = across_ ? columns_ : n;
      for (int64_t i = 0; i < n; i += width)
        table_.ramp(
            out + i, int64_t(start + uint64_t(i / width) * cell(1)), int64_t(cell(2)), width);
    } else if (op.kind == Kind::Philox) {
      int32_t* out = reinterpret_cast<int32_t*>(at(op.dst));
      const auto words = [&](int k) { return reinterpret_cast<const uint64_t*>(at(op.src[k])); };
      const int64_t* index = reinterpret_cast<const int64_t*>(words(0));
      if (op.src[1].place == Place::Cell && op.src[2].place == Place::Cell)
        table_.philox(out, index, words(1)[0], words(2)[0], n);
      else each_philox(out, index, words(1), words(2), n);
    } else {
      gather_elements(core_, op, at(op.dst), reinterpret_cast<const int64_t*>(at(op.src[0])), n);
    }
  }

  void each_philox(
      int32_t* out, const int64_t* index, const uint64_t* seeds, const uint64_t* offsets,
      int64_t n) const {
    for (int64_t i = 0; i < n; ++i) table_.philox(out + i, index + i, seeds[i], offsets[i], 1);
  }

  // --- along rows ---

  void run_along() {
    if (code_->whole) return MapRows(core_, plan_, *code_, sums_, frame_).run(rows_, columns_);
    for (int64_t row = 0; row < rows_; ++row) {
      for (size_t k = 0; k < plan_.cells.size(); ++k)
        if (plan_.cells[k].from == Cell::From::Column) {
          const MapOperand& in = inputs_[plan_.cells[k].index];
          cells_.load(uint16_t(k), in.base + row * in.row_bytes);
        }
      for (size_t k = 0; k < code_->splats.size(); ++k)
        if (plan_.cells[code_->splats[k]].from == Cell::From::Column)
          expand(k, std::min(plan_.strip, columns_));
      for (size_t k = 0; k < outputs_.size(); ++k)
        if (plan_.outputs[k].scope == isa::FTM_SCOPE_R) sums_.row(k) = sums_.row_start(k, row);
      for (int64_t column = 0; column < columns_; column += plan_.strip)
        strip_along(row, column, std::min(plan_.strip, columns_ - column));
      for (size_t k = 0; k < outputs_.size(); ++k)
        if (plan_.outputs[k].scope == isa::FTM_SCOPE_R) sums_.finish_row(k, row, sums_.row(k));
    }
  }

  void strip_along(int64_t row, int64_t column, int64_t n) {
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const uint8_t access = plan_.inputs[k].access;
      input_pointers_[k] = inputs_[k].base +
                           (access == isa::FTM_ACCESS_ROW ? 0 : row * inputs_[k].row_bytes) +
                           (access == isa::FTM_ACCESS_COL ? 0 : column * inputs_[k].bytes);
    }
    for (size_t k = 0; k < outputs_.size(); ++k)
      output_pointers_[k] =
          outputs_[k].base + row * outputs_[k].row_bytes + column * outputs_[k].bytes;
    run_ops(row, column, n);
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const MapOutput& out = plan_.outputs[k];
      if (out.scope == isa::FTM_SCOPE_FULL || is_native_sum(k)) continue;
      const uint8_t* from = at(code_->results[k]);
      const int type = int(strip_type(out.type)), op = int(out.reduction);
      if (out.scope == isa::FTM_SCOPE_R) table_.reduce[op][type](&sums_.row(k), from, n);
      else if (out.scope == isa::FTM_SCOPE_A) table_.reduce[op][type](sums_.all(k), from, n);
      else if (out.scope == isa::FTM_SCOPE_C) sums_.add_to_columns(k, row, rows_, column, from, n);
    }
  }

  bool is_native_sum(size_t output) const {
    return std::find(code_->sums.begin(), code_->sums.end(), output) != code_->sums.end();
  }

  // --- across rows ---

  uint8_t* stage(size_t number) const {
    return core_.strips + code_->stage_offset + int64_t(number) * code_->stride;
  }

  void run_across() {
    const int64_t height = std::max<int64_t>(1, plan_.strip / columns_);
    for (size_t k = 0; k < inputs_.size(); ++k)
      if (plan_.inputs[k].access == isa::FTM_ACCESS_ROW) {
        input_pointers_[k] = stage(k);
        const int64_t bytes = columns_ * inputs_[k].bytes;
        copy_rows(stage(k), bytes, inputs_[k].base, 0, std::min(height, rows_), bytes);
      }
    for (int64_t row = 0; row < rows_; row += height)
      strip_across(row, std::min(height, rows_ - row));
  }

  void strip_across(int64_t row, int64_t height) {
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const MapOperand& in = inputs_[k];
      const uint8_t* from = in.base + row * in.row_bytes;
      if (plan_.inputs[k].access == isa::FTM_ACCESS_FULL) {
        input_pointers_[k] = const_cast<uint8_t*>(from);
        if (in.row_bytes != columns_ * in.bytes) {
          input_pointers_[k] = stage(k);
          copy_rows(stage(k), columns_ * in.bytes, from, in.row_bytes, height, columns_ * in.bytes);
        }
      } else if (plan_.inputs[k].access == isa::FTM_ACCESS_COL) {
        input_pointers_[k] = stage(k);
        spread(stage(k), from, in.row_bytes, in.bytes, height);
      }
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const MapOperand& out = outputs_[k];
      const bool direct = out.row_bytes == columns_ * out.bytes;
      output_pointers_[k] = direct ? out.base + row * out.row_bytes : stage(inputs_.size() + k);
    }
    run_ops(row, 0, height * columns_);
    for (size_t k = 0; k < outputs_.size(); ++k) end_across(k, row, height);
  }

  void end_across(size_t k, int64_t row, int64_t height) {
    const MapOutput& out = plan_.outputs[k];
    const MapOperand& to = outputs_[k];
    const int type = int(strip_type(out.type)), op = int(out.reduction);
    if (out.scope == isa::FTM_SCOPE_FULL) {
      const int64_t bytes = columns_ * to.bytes;
      if (to.row_bytes != bytes)
        copy_rows(
            to.base + row * to.row_bytes, to.row_bytes, output_pointers_[k], bytes, height, bytes);
      return;
    }
    const uint8_t* from = at(code_->results[k]);
    if (out.scope == isa::FTM_SCOPE_A)
      return table_.reduce[op][type](sums_.all(k), from, height * columns_);
    if (out.scope == isa::FTM_SCOPE_C)
      return table_.columns[op][type](sums_.all(k), from, height, columns_);
    const int64_t bytes = columns_ * type_bytes(Type(type));
    for (int64_t i = 0; i < height; ++i) {
      Accumulator acc = sums_.row_start(k, row + i);
      table_.reduce[op][type](&acc, from + i * bytes, columns_);
      sums_.finish_row(k, row + i, acc);
    }
  }

  static void copy_rows(
      uint8_t* to, int64_t to_step, const uint8_t* from, int64_t from_step, int64_t count,
      int64_t bytes) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * to_step, from + i * from_step, size_t(bytes));
  }

  // Repeats each element of a column over the columns of its row.
  void spread(uint8_t* to, const uint8_t* from, int64_t step, int64_t bytes, int64_t count) const {
    constexpr Type by_size[] = {Type::U8, Type::I16, Type::I32, Type::I64};
    const Type type = by_size[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
    const StripFn fill = table_.strip[int(Op::Mov)][int(type)][1];
    for (int64_t i = 0; i < count; ++i)
      fill(to + i * columns_ * bytes, from + i * step, nullptr, nullptr, columns_);
  }

  Core& core_;
  const MapPlan& plan_;
  const KernelTable& table_;
  int64_t rows_, columns_; // as cut: one long row if the tile is flat
  int64_t all_rows_ = 0, all_columns_ = 0;
  bool dense_ = false, across_ = false;
  const StripCode* code_ = nullptr;
  MapScratch& scratch_;
  std::vector<MapOperand>& inputs_ = scratch_.inputs;
  std::vector<MapOperand>& outputs_ = scratch_.outputs;
  std::vector<uint8_t*>& strip_pointers_ = scratch_.strips;
  std::vector<uint8_t*>& splat_pointers_ = scratch_.splats;
  std::vector<uint8_t*>& input_pointers_ = scratch_.input_pointers;
  std::vector<uint8_t*>& output_pointers_ = scratch_.output_pointers;
  MapSums sums_;
  MapCells cells_;
  std::vector<uint8_t>& snapshots_ = scratch_.snapshots;
  uint8_t* none_[1] = {nullptr};
  native::Frame frame_;
};

} // namespace

Core::Core() : map_scratch(std::make_unique<MapScratch>()) {}
Core::~Core() = default;

void run_map(Core& core, const MapPlan& plan, int64_t rows, int64_t columns) {
  MapRun(core, plan, rows, columns).run();
}

} // namespace ftm
