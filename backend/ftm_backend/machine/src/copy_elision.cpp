#include "copy_elision.h"

#include <algorithm>

#include "isa_gen.h"

namespace ftm {
namespace {

enum class Role : uint8_t { load, store, gather, map_input, map_output, factor, product, other };

struct Reference {
  size_t step;
  Role role;
};

class Analysis {
 public:
  explicit Analysis(Program& program)
      : p_(program), references_(program.tiles.size()), entered_(program.steps.size() + 1) {
    for (const Function& f : p_.functions) entered_[f.first] = true;
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const Step& s = p_.steps[i];
      if (s.opcode == isa::FTM_OP_SBR) entered_[size_t(s.target)] = true;
      add_references(i, s);
    }
  }

  void run() {
    for (size_t t = 0; t < p_.tiles.size(); ++t) {
      TileDecl& tile = p_.tiles[t];
      if (tile.depth != 1 || tile.space == 3 || references_[t].size() < 2) continue;
      const std::vector<Reference>& refs = references_[t];
      const Role first = refs.front().role;
      if (first == Role::load && is_only_read(refs)) {
        const bool by_map = std::any_of(
            refs.begin(), refs.end(), [](const Reference& r) { return r.role == Role::map_input; });
        for (const Reference& r : refs)
          if (r.role == Role::load)
            p_.dmas[size_t(p_.steps[r.step].target)].lends = by_map ? Lends::rows : Lends::loops;
      }
      if (is_only_stored(refs)) tile.stored_by = int32_t(refs.back().step);
    }
  }

 private:
  void add(int32_t tile, size_t step, Role role) {
    references_[size_t(tile)].push_back({step, role});
  }

  void add_references(size_t i, const Step& s) {
    const size_t target = size_t(s.target);
    switch (s.opcode) {
      case isa::FTM_OP_MAP:
        for (const MapInput& in : p_.maps[target]->inputs) add(in.tile, i, Role::map_input);
        for (const MapOutput& out : p_.maps[target]->outputs)
          add(out.tile, i, out.scope == isa::FTM_SCOPE_FULL ? Role::map_output : Role::other);
        return;
      case isa::FTM_OP_DLD: return add(p_.dmas[target].data.tile, i, Role::load);
      case isa::FTM_OP_DST: return add(p_.dmas[target].data.tile, i, Role::store);
      case isa::FTM_OP_DLB: return add(p_.dmas[target].data.tile, i, Role::other);
      case isa::FTM_OP_DGA:
        add(p_.dmas[target].data.tile, i, Role::gather);
        return add(p_.dmas[target].index.tile, i, Role::other);
      case isa::FTM_OP_DSC:
        add(p_.dmas[target].data.tile, i, Role::other);
        return add(p_.dmas[target].index.tile, i, Role::other);
      case isa::FTM_OP_DCP:
      case isa::FTM_OP_TRANS:
      case isa::FTM_OP_SORT: return add(p_.matrices[target], i, false);
      case isa::FTM_OP_MM: {
        const Matrix& m = p_.matrices[target];
        add(m.a.tile, i, Role::factor);
        add(m.b.tile, i, Role::factor);
        return add(m.c.tile, i, s.flags & isa::FTM_FLAG_ACC ? Role::other : Role::product);
      }
      case isa::FTM_OP_SCAN:
      case isa::FTM_OP_MERGE: return add(p_.matrices[target], i, true);
      case isa::FTM_OP_DCW:
      case isa::FTM_OP_FOLD: return add(p_.windows[target].tiles, i, false);
      case isa::FTM_OP_MMW: return add(p_.windows[target].tiles, i, true);
      default: return;
    }
  }
  void add(const Matrix& m, size_t step, bool three) {
    add(m.a.tile, step, Role::other);
    add(m.b.tile, step, Role::other);
    if (three) add(m.c.tile, step, Role::other);
  }

  bool is_unconditional(size_t step) const {
    const Step& s = p_.steps[step];
    return s.predicate == p_.one_register() && !s.negated;
  }

  // Whether all steps behind `first` up to `last` run after it, in this order, and are of the given
  // kind.
  template <class F>
  bool is_straight(size_t first, size_t last, F allowed) const {
    for (size_t i = first + 1; i <= last; ++i)
      if (entered_[i] || !allowed(p_.steps[i].opcode)) return false;
    return true;
  }

  // Loads, and behind each of them only maps and products that read the tile. In between nothing
  // could write a buffer: neither a transfer of this core, nor another core, which needs a barrier.
  bool is_only_read(const std::vector<Reference>& refs) const {
    const auto allowed = [](uint16_t op) {
      return op < isa::FTM_OP_SBR || op == isa::FTM_OP_MAP || op == isa::FTM_OP_DLD ||
             op == isa::FTM_OP_DLB || op == isa::FTM_OP_DGA || op == isa::FTM_OP_MM ||
             op == isa::FTM_OP_DWAIT || op == isa::FTM_OP_DWAITALL;
    };
    size_t load = 0;
    for (const Reference& r : refs) {
      if (r.role == Role::load) {
        load = r.step;
        if (!is_unconditional(load)) return false;
        continue;
      }
      const bool is_map = r.role == Role::map_input && reads_buffers(r.step);
      if (!is_map && r.role != Role::factor) return false;
      if (!is_straight(load, r.step, allowed)) return false;
    }
    return true;
  }

  // One map, product or gather that writes the tile, then one store of it. In between there are
  // only other stores, so the store's operands do not change.
  bool is_only_stored(const std::vector<Reference>& refs) const {
    if (refs.size() != 2 || refs[1].role != Role::store) return false;
    const size_t writer = refs[0].step, store = refs[1].step;
    const auto allowed = [](uint16_t op) {
      return op == isa::FTM_OP_DST || op == isa::FTM_OP_DWAIT;
    };
    const Role role = refs[0].role;
    const bool is_exact = role == Role::gather || role == Role::product ||
                          (role == Role::map_output && reads_buffers(writer));
    return is_exact && is_unconditional(writer) && is_unconditional(store) &&
           is_straight(writer, store, allowed);
  }

  // Whether the map of a step leaves tiles to translated code, and cannot fault.
  bool reads_buffers(size_t step) const {
    const MapPlan& plan = *p_.maps[size_t(p_.steps[step].target)];
    if (!plan.native) return false;
    for (const StripCode* code : {&plan.native->along, &plan.native->across})
      for (const StripOp& op : code->ops) {
        if (op.kind == Kind::Gather) return false;
        for (Spot s : {op.dst, op.src[0], op.src[1], op.src[2]})
          if (s.place == Place::Input || s.place == Place::Output) return false;
      }
    return true;
  }

  Program& p_;
  std::vector<std::vector<Reference>> references_; // of each tile, in the order of the steps
  std::vector<bool> entered_; // steps that a branch or a call leads to
};

} // namespace

void elide_copies(Program& program) {
  Analysis(program).run();
}

} // namespace ftm
