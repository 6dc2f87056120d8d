#include "native/body_runs.h"

#include <algorithm>

#include "isa_gen.h"
#include "native/frame.h"

namespace ftm::native {
namespace {

bool is_wide_integer(Type t) {
  return t == Type::I32 || t == Type::I64;
}

bool has_vector_code(const StripOp& op) {
  if (op.kind == Kind::Convert || op.kind == Kind::LoadHalf || op.kind == Kind::StoreHalf)
    return true;
  if (op.kind != Kind::Strip) return false;
  const Type t = op.type;
  const int64_t bytes = type_bytes(t);
  switch (op.op) {
    case Op::Mov:
    case Op::Add:
    case Op::Min:
    case Op::Max:
    case Op::Minn:
    case Op::Maxn:
    case Op::Abs:
    case Op::Sub:
    case Op::Neg:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Not:
    case Op::Cmpeq:
    case Op::Cmpne:
    case Op::Cmplt:
    case Op::Cmple:
    case Op::Sel: return true;
    case Op::Mul: return t == Type::B1 || bytes >= 2;
    case Op::Fma: return is_float(t) || is_wide_integer(t) || t == Type::I16;
    case Op::Shl:
    case Op::Shr:
    case Op::Shru: return bytes >= 2;
    case Op::Div:
    case Op::Copysign:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Rcp:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Trunc: return is_float(t);
    case Op::Exp:
    case Op::Exp2:
    case Op::Log:
    case Op::Tanh:
    case Op::Erf: return t == Type::F32;
    default: return false;
  }
}

// Whether functions load a cell from its tile, once for each row. Otherwise the caller loads it
// before each row: it must be converted, or may be overwritten during the row.
bool is_loaded_by_row(const MapPlan& plan, const Cell& cell) {
  return cell.from == Cell::From::Column && !is_half(cell.round) &&
         !plan.inputs[cell.index].overwritten;
}

// Whether a reduction of float32 can keep its lanes in registers.
bool has_lanes(Reduction reduction) {
  return reduction == Reduction::Sum || reduction == Reduction::Min || reduction == Reduction::Max;
}

// The inputs and outputs whose addresses a function needs.
class Pointers {
 public:
  Pointers(const MapPlan& plan, const StripCode& body) : plan_(plan), body_(body) {}
  size_t size() const { return found_.size(); }
  void add(Spot spot) {
    const Spot s = pointer_of(plan_, body_, spot);
    if (s.place == Place::None) return;
    for (Spot other : found_)
      if (same(s, other)) return;
    found_.push_back(s);
  }

 private:
  const MapPlan& plan_;
  const StripCode& body_;
  std::vector<Spot> found_;
};

} // namespace

int widest(const StripOp& op) {
  if (op.kind == Kind::Strip) return int(type_bytes(op.type));
  if (op.kind != Kind::Convert) return 4;
  return int(std::max(type_bytes(strip_type(op.type)), type_bytes(op.from)));
}

Spot pointer_of(const MapPlan& plan, const StripCode& body, Spot s) {
  if (in_memory(s)) return s;
  if (!is_cell(s)) return {};
  const Cell& cell = plan.cells[cell_of(body, s)];
  if (is_loaded_by_row(plan, cell)) return {Place::Input, cell.index};
  return {};
}

size_t end_of_run(const MapPlan& plan, const StripCode& body, size_t first) {
  Pointers found(plan, body);
  for (size_t i = first; i < body.ops.size(); ++i) {
    const StripOp& op = body.ops[i];
    if (!has_vector_code(op)) return i;
    for (Spot s : {op.dst, op.src[0], op.src[1], op.src[2]}) found.add(s);
    if (found.size() > kMostPointers) return i;
  }
  return body.ops.size();
}

std::vector<uint16_t> sums_of(const MapPlan& plan, const StripCode& body, size_t first) {
  std::vector<uint16_t> sums;
  Pointers found(plan, body);
  for (size_t i = first; i < body.ops.size(); ++i) {
    const StripOp& op = body.ops[i];
    if (widest(op) > 4) return {};
    for (Spot s : {op.dst, op.src[0], op.src[1], op.src[2]}) found.add(s);
  }
  for (size_t k = 0; k < plan.outputs.size(); ++k) {
    const MapOutput& out = plan.outputs[k];
    if (out.scope != isa::FTM_SCOPE_R && out.scope != isa::FTM_SCOPE_A) continue;
    if (strip_type(out.type) != Type::F32 || !has_lanes(out.reduction)) return {};
    found.add(body.results[k]);
    sums.push_back(uint16_t(k));
  }
  if (sums.size() > kMostSums || found.size() > kMostPointers) return {};
  return sums;
}

bool is_whole(const MapPlan& plan, const StripCode& body, const StripCode& result) {
  if (result.ops.size() != 1 || result.ops[0].kind != Kind::Native) return false;
  size_t reduced = 0;
  for (const MapOutput& out : plan.outputs) reduced += out.scope != isa::FTM_SCOPE_FULL;
  if (reduced != result.sums.size()) return false;
  const auto is_loaded_by_caller = [&](Spot s) {
    if (!is_cell(s)) return false;
    const Cell& cell = plan.cells[cell_of(body, s)];
    return cell.from == Cell::From::Column && !is_loaded_by_row(plan, cell);
  };
  for (const StripOp& op : body.ops)
    for (Spot s : op.src)
      if (is_loaded_by_caller(s)) return false;
  return std::none_of(body.results.begin(), body.results.end(), is_loaded_by_caller);
}

void drop_splats(const MapPlan& plan, StripCode& body) {
  std::vector<uint16_t> kept;
  const auto use = [&](Spot& s) {
    if (s.place != Place::Splat) return;
    const uint16_t cell = body.splats[s.index];
    const auto at = std::find(kept.begin(), kept.end(), cell);
    s.index = uint16_t(at - kept.begin());
    if (at == kept.end()) kept.push_back(cell);
  };
  for (StripOp& op : body.ops)
    for (Spot& s : op.src) use(s);
  for (size_t k = 0; k < plan.outputs.size(); ++k)
    if (plan.outputs[k].scope != isa::FTM_SCOPE_FULL) use(body.results[k]);
  body.splats = std::move(kept);
}

} // namespace ftm::native
