#include "compile/compile_queue.h"

#include "support/strict_mode.h"

#include <algorithm>
#include <utility>

namespace ftm {

bool is_done(const CompilationPtr& compilation) {
  return compilation->state == Compilation::State::done;
}

bool has_interrupt(const CompilationPtr& compilation) {
  return compilation->state == Compilation::State::interrupted;
}

bool is_started(const CompileQueue& q, uint64_t launch) {
  return q.units.empty() || q.units.front().launch > launch;
}

void decide(CompileQueue& q, const CompilationPtr& compilation) {
  compilation->has_known_dims = true;
  for (const auto& unit : q.units) {
    if (unit.compilation == compilation) {
      for (const auto& output : unit.job->outputs) {
        q.undecided.erase(output.get());
      }
    }
  }
}

CompilationPtr next_to_compile(const CompileQueue& q, bool is_requester) {
  using State = Compilation::State;
  const auto can_begin = [&](const CompilationPtr& each) {
    if (each->state != State::waiting || (each->is_reserved && !is_requester)) {
      return false;
    }
    const bool is_dependent =
        each->job && !each->request.any_size &&
        std::any_of(each->job->inputs.begin(), each->job->inputs.end(), [&](const Input& input) {
          return q.undecided.count(input.buffer.get()) != 0;
        });
    return !is_dependent &&
           std::none_of(
               q.compilations.begin(), q.compilations.end(), [&](const CompilationPtr& other) {
                 // no unit waits for a whole trace's program, which may take long
                 return other->state == State::running && !other->is_whole &&
                        each->is_similar(*other);
               });
  };
  const auto found = std::find_if(q.compilations.begin(), q.compilations.end(), can_begin);
  return found == q.compilations.end() ? nullptr : *found;
}

bool can_start(const CompileQueue& q, bool is_requester) {
  if (q.units.empty() || (q.starting && !is_requester)) {
    return false;
  }
  const auto& first = q.units.front();
  if (first.owner != std::thread::id() && !is_requester) {
    return false;
  }
  return first.program || is_done(first.compilation);
}

void set_program(QueuedUnit& unit, ProgramPtr program) {
  unit.program = std::move(program);
  const bool keeps_sizes = unit.compilation && is_fill(unit.compilation->request, *unit.job);
  if (unit.program && !keeps_sizes) {
    set_varying_results(*unit.job, *unit.program);
  }
}

bool note_outcome(CompileQueue& q, const CompilationPtr& compilation, const BuildResult& built) {
  if (built.interrupt && compilation->waiters != 0) {
    compilation->state = Compilation::State::interrupted;
    compilation->is_reserved = false;
    return true;
  }
  compilation->state = Compilation::State::done;
  if (!built.failure.empty() && compilation->waiters != 0 && !is_strict()) {
    q.failures.push_back(built.failure);
  }
  compilation->program = built.program;
  for (auto& unit : q.units) {
    if (unit.compilation == compilation) {
      set_program(unit, built.program);
    }
  }
  decide(q, compilation);
  std::erase(q.compilations, compilation);
  return false;
}

CompilationPtr first_interrupted(const CompileQueue& q) {
  const auto found = std::find_if(q.compilations.begin(), q.compilations.end(), has_interrupt);
  return found == q.compilations.end() ? nullptr : *found;
}

CompilationPtr request_program(CompileQueue& q, CompileRequest request, JobPtr job, bool is_here) {
  const auto found = std::find_if(
      q.compilations.begin(), q.compilations.end(),
      [&](const auto& each) { return each->request.hash == request.hash; });
  if (found != q.compilations.end()) {
    return *found;
  }
  const auto compilation = std::make_shared<Compilation>(std::move(request), std::move(job));
  compilation->program = find_program(compilation->request.hash);
  if (compilation->program) { // another thread has compiled it meanwhile
    compilation->state = Compilation::State::done;
  } else {
    compilation->is_reserved = is_here;
    q.compilations.push_back(compilation);
  }
  return compilation;
}

uint64_t append(CompileQueue& q, std::vector<LaunchUnit> units, bool is_here) {
  ++q.launches;
  for (auto& unit : units) {
    QueuedUnit queued{std::move(unit.job), std::move(unit.program), nullptr, q.launches, {}};
    if (is_here) {
      queued.owner = std::this_thread::get_id();
    }
    if (!queued.program) {
      queued.compilation = request_program(q, std::move(unit.request), queued.job, is_here);
      queued.program = queued.compilation->program;
      ++queued.compilation->waiters;
    }
    if (queued.program) {
      set_program(queued, queued.program);
    } else if (!queued.compilation->has_known_dims) {
      for (const auto& output : queued.job->outputs) {
        q.undecided.insert(output.get());
      }
    }
    q.units.push_back(std::move(queued));
  }
  return q.launches;
}

} // namespace ftm
