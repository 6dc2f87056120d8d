// A core's interpreter loop: executes scalar instructions in place, and calls functions for others.
#include "checker.h"
#include "collectives.h"
#include "core_state.h"
#include "isa_gen.h"
#include "span_log.h"

namespace ftm {
namespace {

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return int64_t(0 - uint64_t(a));
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t m = a % b;
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

int64_t wrap(uint64_t x) {
  return int64_t(x);
}

int64_t integer_at(const uint8_t* p, Type type) {
  switch (type) {
    case Type::I64: {
      int64_t x;
      __builtin_memcpy(&x, p, 8);
      return x;
    }
    case Type::I32: {
      int32_t x;
      __builtin_memcpy(&x, p, 4);
      return x;
    }
    case Type::I16: {
      int16_t x;
      __builtin_memcpy(&x, p, 2);
      return x;
    }
    case Type::I8: return int8_t(*p);
    default: return *p;
  }
}

int64_t load_integer(Core& core, int32_t index, int64_t at) {
  const BufferDecl& b = core.program->buffers[index];
  if (at < 0 || at >= core.views[index].elements)
    throw Fault("reads element " + std::to_string(at) + " of " + core.buffer_name(index));
  if (core.checker) core.checker->read_element(index, at);
  return integer_at(core.views[index].base + at * type_bytes(b.type), b.type);
}

// Called where a run may end early: at calls, barriers and backward branches. Every endless program
// executes one of these.
void may_stop(Core& core, uint32_t at, uint64_t executed) {
  core.step = at;
  if (core.phase->load(std::memory_order_relaxed) == Phase::stopping) throw Interrupted();
  if (executed > core.most_instructions)
    throw Fault(
        "has executed " + std::to_string(executed) + " instructions, and a run may take " +
        std::to_string(core.most_instructions) + ": an endless loop?");
}

// Called where a core stops at a barrier, and where it goes on behind it. The time between is a
// span of its own between calls of main.
void begin_wait(Core& core) {
  core.is_at_barrier = true;
  if (!core.spans) return;
  if (core.returns.empty()) core.spans->begin(FTM_BARRIER, core.counters);
  else core.waits_since = nanoseconds_now();
}

void end_wait(Core& core) {
  core.is_at_barrier = false;
  if (core.checker) core.checker->next_epoch();
  if (!core.spans) return;
  if (core.returns.empty()) core.spans->end(core.counters);
  else core.spans->add_wait(nanoseconds_now() - core.waits_since);
}

} // namespace

Progress run_core(Core& core) {
  const Program& program = *core.program;
  const Step* const steps = program.steps.data();
  int64_t* const r = core.r;
  std::vector<uint32_t>& returns = core.returns;
  uint64_t executed = core.executed;
  uint32_t at = core.at;
  if (core.is_at_barrier) end_wait(core);
  for (;; ++at) {
    const Step& s = steps[at];
    if ((r[s.predicate] != 0) == s.negated) continue;
    ++executed;
    const auto a = [&] { return core.value(s.a); };
    const auto b = [&] { return core.value(s.b); };
    switch (s.opcode) {
      case isa::FTM_OP_SMOV: r[s.dst] = a(); continue;
      case isa::FTM_OP_SADD: r[s.dst] = wrap(uint64_t(a()) + uint64_t(b())); continue;
      case isa::FTM_OP_SSUB: r[s.dst] = wrap(uint64_t(a()) - uint64_t(b())); continue;
      case isa::FTM_OP_SMUL: r[s.dst] = wrap(uint64_t(a()) * uint64_t(b())); continue;
      case isa::FTM_OP_SDIV: r[s.dst] = floor_divide(a(), b()); continue;
      case isa::FTM_OP_SREM: r[s.dst] = floor_remainder(a(), b()); continue;
      case isa::FTM_OP_SMIN: r[s.dst] = a() < b() ? a() : b(); continue;
      case isa::FTM_OP_SMAX: r[s.dst] = a() > b() ? a() : b(); continue;
      case isa::FTM_OP_SLT: r[s.dst] = a() < b(); continue;
      case isa::FTM_OP_SEQ: r[s.dst] = a() == b(); continue;
      case isa::FTM_OP_SNE: r[s.dst] = a() != b(); continue;
      case isa::FTM_OP_SCID: r[s.dst] = core.id; continue;
      case isa::FTM_OP_SNC: r[s.dst] = core.count; continue;
      case isa::FTM_OP_SBR:
        if (uint32_t(s.target) <= at) may_stop(core, at, executed);
        at = uint32_t(s.target) - 1;
        continue;
      case isa::FTM_OP_CALL:
        may_stop(core, at, executed);
        if (returns.size() > program.functions.size())
          throw Fault("recursion: a function calls itself");
        if (core.spans && returns.empty()) core.spans->begin(s.target, core.counters);
        returns.push_back(at);
        core.bind(program.calls[size_t(s.target)]);
        at = uint32_t(program.calls[size_t(s.target)].target) - 1;
        continue;
      case isa::FTM_OP_RET:
        if (returns.empty()) {
          if (core.checker) core.checker->wait_all();
          core.counters.instructions += executed;
          return Progress::ended;
        }
        at = returns.back();
        returns.pop_back();
        if (core.spans && returns.empty()) core.spans->end(core.counters);
        continue;
      default: break;
    }
    core.step = at;
    switch (s.opcode) {
      case isa::FTM_OP_SLDI: r[s.dst] = load_integer(core, s.target, a()); break;
      case isa::FTM_OP_BARRIER:
        if (core.checker) core.checker->wait_all();
        may_stop(core, at, executed);
        core.at = at + 1;
        core.executed = executed;
        begin_wait(core);
        return Progress::at_barrier;
      case isa::FTM_OP_MAP: run_map(core, *program.maps[s.target], a(), b()); break;
      case isa::FTM_OP_DLD:
      case isa::FTM_OP_DLB: run_load(core, program.dmas[s.target]); break;
      case isa::FTM_OP_DST: run_store(core, program.dmas[s.target]); break;
      case isa::FTM_OP_DGA: run_gather(core, program.dmas[s.target]); break;
      case isa::FTM_OP_DSC: run_scatter(core, program.dmas[s.target], s.flags); break;
      case isa::FTM_OP_DCP: run_tile_copy(core, program.matrices[s.target]); break;
      case isa::FTM_OP_DCW: run_window_copy(core, program.windows[s.target]); break;
      case isa::FTM_OP_DWAIT:
        // Transfers complete when they are issued; only the checker keeps them in flight.
        if (core.checker) core.checker->wait(core.number(program.matrices[s.target].a));
        break;
      case isa::FTM_OP_DWAITALL:
        if (core.checker) core.checker->wait_all();
        break;
      case isa::FTM_OP_MM: run_matrix(core, program.matrices[s.target], s.flags); break;
      case isa::FTM_OP_MMW: run_windows(core, program.windows[s.target], s.flags); break;
      case isa::FTM_OP_SCAN: run_scan(core, program.matrices[s.target], s.flags); break;
      case isa::FTM_OP_SORT: run_sort(core, program.matrices[s.target]); break;
      case isa::FTM_OP_MERGE: run_merge(core, program.matrices[s.target]); break;
      case isa::FTM_OP_CSTART: start_collective(core, program.collectives[s.target]); break;
      case isa::FTM_OP_CWAIT: core.collectives->wait(a()); break;
      case isa::FTM_OP_FOLD: run_fold(core, program.windows[s.target]); break;
      case isa::FTM_OP_TRANS: run_transpose(core, program.matrices[s.target]); break;
    }
  }
}

void Core::bind(const Call& call) {
  for (const Binding& b : call.buffers) {
    const View from = views[b.buffer];
    const int64_t at = value(b.offset);
    if (at < 0 || at > from.elements)
      throw Fault(
          "binds " + program->buffers[size_t(b.parameter)].name + " to element " +
          std::to_string(at) + " of " + buffer_name(b.buffer));
    const int64_t bytes = at * type_bytes(program->buffers[size_t(b.buffer)].type);
    views[b.parameter] = {
        from.base + bytes, from.elements - at, from.buffer, from.donated, from.start + at};
  }
  for (const ScalarBinding& b : call.scalars) r[b.reg] = value(b.value);
}

std::string Core::buffer_name(int32_t index) const {
  const View& view = views[index];
  std::string text = program->buffers[size_t(index)].name;
  if (view.buffer != index)
    text += " (" + program->buffers[size_t(view.buffer)].name + " from element " +
            std::to_string(view.start) + ")";
  return text + ", which has " + std::to_string(view.elements) + " elements";
}

std::string Core::name(int32_t tile_index, int32_t number) const {
  const TileDecl& t = tile(tile_index);
  return t.depth == 1 ? t.name : t.name + "[" + std::to_string(number - t.first_slot) + "]";
}

void Core::refuse_overlap(
    const char* what, int32_t written_tile, int32_t written, int32_t other_tile,
    int32_t other) const {
  if (touch(written_tile, written, other_tile, other))
    throw Fault(
        std::string(what) + ", " + name(written_tile, written) + ", overlaps " +
        name(other_tile, other));
}

std::string extents(int64_t rows, int64_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

} // namespace ftm
