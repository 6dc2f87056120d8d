#include "execute/job.h"

#include "execute/run_log.h"
#include "support/counters.h"
#include "support/event_log.h"
#include "support/metrics.h"
#include "support/strict_mode.h"
#include "reference/executor.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace ftm {
namespace {

constexpr int64_t kScratch = -1; // MemoryEvent::result

constexpr const char* kNoReplay =
    " (FTM_STRICT forbids to run the program again on the CPU, which would raise what eager "
    "PyTorch does)";

// Assigns memory to the results. A result reuses (donation) the memory of an input that only this
// job references, if the program allows it.
void allocate_results(Job& job, const MachineProgram& program) {
  static auto& donations = counter("donations");
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const int32_t alias = program.aliases()[i];
    // A part of a buffer never has the buffer's size. If a buffer has several parts here, it has
    // several references.
    const auto& output = *job.outputs[i];
    const bool donated = alias >= 0 && job.inputs[alias].buffer.use_count() == 1 &&
                         job.inputs[alias].buffer->nbytes() == output.nbytes() &&
                         job.inputs[alias].buffer->device_index() == output.device_index();
    // A donor keeps its memory until all inputs' addresses are collected, as the program reads it.
    if (donated) {
      donations.fetch_add(1);
    } else {
      set_memory_owner(job.number, static_cast<int64_t>(i));
      job.outputs[i]->allocate();
    }
  }
  set_memory_owner(job.number, kScratch);
}

// Throws MachineFault. If that has inputs_intact, the job has its inputs as before.
void run_on_machine(Job& job, const MachineProgram& program) {
  allocate_results(job, program);
  std::vector<void*> inputs, outputs;
  for (const auto& input : job.inputs) {
    inputs.push_back(input.data());
  }
  // Owned by the run, see allocate_results.
  const auto device = job.outputs.empty() ? c10::DeviceIndex{0} : job.outputs[0]->device_index();
  const Block arena =
      program.arena_bytes() == 0 ? Block{} : allocate_block(program.arena_bytes(), device);
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    auto& output = *job.outputs[i];
    if (output.data() == nullptr) {
      output.adopt(*job.inputs[program.aliases()[i]].buffer);
    }
    outputs.push_back(output.data());
  }
  try {
    program.run(
        inputs, outputs, job.scalars, arena.data, InterruptedBy::launcher,
        run_log_is_open() ? &job.spans : nullptr);
  } catch (const MachineFault& fault) {
    free_block(arena);
    for (size_t i = 0; i < outputs.size() && fault.inputs_intact; ++i) {
      const int32_t alias = program.aliases()[i];
      if (alias >= 0 && outputs[i] == inputs[alias]) {
        job.inputs[alias].buffer->adopt(*job.outputs[i]);
      }
    }
    throw;
  }
  free_block(arena);
}

// Whether nothing else needs an old value: neither another owner of its buffer, nor another result.
bool is_only_use(const Job& job, const OldValue& old) {
  const auto& buffer = old.input >= 0 ? job.inputs[old.input].buffer : old.other;
  const auto is_same = [&](const OldValue& other) { return other.input == old.input; };
  return buffer.use_count() == 1 &&
         (old.input < 0 ||
          std::count_if(job.old_values.begin(), job.old_values.end(), is_same) == 1);
}

// After a failure: gives a result the value that its variable had before. Returns false if there
// was none, or the program has overwritten it. Takes no memory from the pool if it can take the old
// value's: the failure may be that there is none left.
bool restore_old_value(const Job& job, size_t output) {
  if (job.old_values.empty()) {
    return false;
  }
  const auto& [input, other] = job.old_values[output];
  const auto& old = input >= 0 ? job.inputs[input].buffer : other;
  auto& result = *job.outputs[output];
  if (!old || old->state() != Buffer::State::ready || old->nbytes() != result.nbytes()) {
    return false;
  }
  if (result.nbytes() != 0) {
    if (old->data() == nullptr) {
      return false;
    }
    if (result.data() == nullptr && is_only_use(job, job.old_values[output])) {
      return result.adopt(*old);
    }
    result.allocate();
    std::memcpy(result.data(), old->data(), result.nbytes());
  }
  return true;
}

void stop_if_interrupted() {
  if (is_interrupted()) {
    throw MachineInterrupted("was interrupted");
  }
}

// Runs the trace call by call on the CPU. If a call throws, results of earlier calls have their
// values, as in eager PyTorch; the other results keep their variables' old values.
Outcome run_on_cpu(Job& job, const Trace& trace) {
  std::vector<at::Tensor> inputs;
  inputs.reserve(job.inputs.size());
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    inputs.push_back(dense_on_cpu(job.inputs[i], trace.parameters[i]));
  }
  const auto results =
      run_reference(trace, std::move(inputs), job.scalars, job.origin, &stop_if_interrupted);
  Outcome outcome{std::vector<bool>(job.outputs.size()), results.failure};
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    if (results.tensors[i].defined()) {
      job.outputs[i]->allocate();
      store_on_cpu(results.tensors[i], trace.result_types[i], *job.outputs[i]);
      outcome.valid[i] = true;
    } else {
      outcome.valid[i] = restore_old_value(job, i);
    }
  }
  return outcome;
}

// The machine stopped before it overwrote an input. Runs the program again on the CPU, where
// eager's kernels raise the right error and compute what eager would have computed.
Outcome replay(Job& job, const MachineFault& fault) {
  static auto& replays = counter("fault_replays");
  replays.fetch_add(1);
  Outcome outcome = run_on_cpu(job, job.program->trace());
  if (!outcome.failure) {
    // The fault is a bug of the compiler or the machine, not of the user's program.
    if (is_checked()) {
      throw fault;
    }
    TORCH_WARN(
        "the machine stopped in a program that is right; it was run again, op by op on the CPU, "
        "and its results are right. Please report it: ",
        fault.what());
  }
  return outcome;
}

// Outcome of a job that is not run because of a failure.
Outcome not_run(const Job& job, const FailurePtr& failure) {
  Outcome outcome{std::vector<bool>(job.outputs.size()), failure};
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    outcome.valid[i] = restore_old_value(job, i);
  }
  return outcome;
}

Outcome run(Job& job) {
  if (job.abandoned) {
    return not_run(job, job.abandoned);
  }
  for (const auto& input : job.inputs) {
    if (input.buffer->state() == Buffer::State::failed) {
      return not_run(job, input.buffer->failure());
    }
  }
  const auto* machine = job.program->machine();
  if (machine == nullptr) {
    count_op_by_op_run(*job.program);
    return run_on_cpu(job, job.program->trace());
  }
  try {
    run_on_machine(job, *machine);
  } catch (const MachineInterrupted&) {
    throw;
  } catch (const MachineFault& fault) {
    if (!fault.inputs_intact || !fault.is_repeatable) {
      throw;
    }
    if (is_strict()) {
      throw MachineFault(
          fault.what() + std::string(kNoReplay), /*inputs_intact=*/true, /*is_repeatable=*/true);
    }
    return replay(job, fault);
  }
  return {std::vector<bool>(job.outputs.size(), true), nullptr};
}

// Returns the failure of a collective of the program, whose message names the call; null if there
// is none.
FailurePtr failed_collective(const Job& job) {
  for (const auto& collective : job.collectives) {
    if (auto failure = collective->failure()) {
      return failure;
    }
  }
  return nullptr;
}

// The place to report with a failure of the whole program.
std::string where(const Job& job, const std::exception& error) {
  const bool is_fault = dynamic_cast<const MachineFault*>(&error) != nullptr;
  return "(in a program that was launched earlier on device ftm" + job.origin.launch_text() +
         (is_fault ? job.origin.candidates_text() : "") + ")";
}

} // namespace

Outcome run_job(Job& job) {
  TORCH_LAZY_TIMED("ExecuteTime");
  try {
    return run(job);
  } catch (const MachineInterrupted&) {
    return {{}, nullptr, /*interrupted=*/true};
  } catch (const std::exception& error) {
    auto failure = failed_collective(job);
    if (!failure) {
      failure = failure_from(error, where(job, error));
    }
    Outcome outcome{std::vector<bool>(job.outputs.size()), std::move(failure)};
    for (size_t i = 0; i < job.outputs.size(); ++i) {
      try {
        outcome.valid[i] = restore_old_value(job, i);
      } catch (const c10::OutOfMemoryError&) {
        outcome.valid[i] = false; // the user gets `failure` when the result is read
      }
    }
    return outcome;
  }
}

FailurePtr begin_task(const JobPtr& job) {
  for (const auto& input : job->inputs) {
    if (input.buffer->state() == Buffer::State::failed) {
      return input.buffer->failure();
    }
  }
  try {
    for (const auto& output : job->outputs) {
      output->allocate();
    }
    job->task->begin(job);
  } catch (const std::exception& error) {
    return job->task->describe(error);
  }
  return nullptr;
}

} // namespace ftm
