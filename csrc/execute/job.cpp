#include "execute/job.h"

#include "support/counters.h"
#include "support/metrics.h"
#include "support/strict_mode.h"
#include "reference/executor.h"

#include <c10/util/Exception.h>

#include <cstring>

namespace ftm {
namespace {

constexpr const char* kNotRunAgain =
    " (FTM_STRICT forbids to run the program again on the CPU, which would raise what eager "
    "PyTorch does)";

// Memory for the results: that of an input which only this job still holds, where the program
// allows it.
void place_results(Job& job, const MachineProgram& program) {
  static auto& donations = counter("donations");
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const int32_t alias = program.aliases()[i];
    // A window is never as large as its buffer, and a buffer of several windows has several holders
    // here.
    const bool donated = alias >= 0 && job.inputs[alias].buffer.use_count() == 1 &&
                         job.inputs[alias].buffer->nbytes() == job.outputs[i]->nbytes();
    // The donor keeps its address until all are placed: the program reads from there.
    if (donated) {
      donations.fetch_add(1);
    } else {
      job.outputs[i]->allocate();
    }
  }
}

// Throws MachineFault. Where it says that inputs are whole, the job has them as before.
void run_on_machine(Job& job, const MachineProgram& program) {
  place_results(job, program);
  std::vector<void*> inputs, outputs;
  for (const auto& input : job.inputs) {
    inputs.push_back(input.data());
  }
  const Block arena = program.arena_bytes() == 0 ? Block{} : allocate_block(program.arena_bytes());
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    auto& output = *job.outputs[i];
    if (output.data() == nullptr) {
      output.adopt(*job.inputs[program.aliases()[i]].buffer);
    }
    outputs.push_back(output.data());
  }
  try {
    program.run(inputs, outputs, job.scalars, arena.data, InterruptedBy::launcher);
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

// After a failure: a result whose variable held a value becomes that value. False if there was
// none, or if the program has written over it.
bool give_back(const Job& job, size_t output) {
  if (job.before.empty()) {
    return false;
  }
  const auto& before = job.before[output];
  const auto& old = before.input >= 0 ? job.inputs[before.input].buffer : before.other;
  auto& result = *job.outputs[output];
  if (!old || old->state() != Buffer::State::ready || old->nbytes() != result.nbytes()) {
    return false;
  }
  if (result.nbytes() != 0) {
    if (old->data() == nullptr) {
      return false;
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

// Runs the trace call by call, on the CPU. What comes before a call that throws has its value, as
// in eager PyTorch; what comes after it keeps the value from before.
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
      outcome.whole[i] = true;
    } else {
      outcome.whole[i] = give_back(job, i);
    }
  }
  return outcome;
}

// The machine stopped before it wrote over any input: eager's own kernels tell what the matter is,
// and compute what eager would have computed.
Outcome replay(Job& job, const MachineFault& fault) {
  static auto& replays = counter("fault_replays");
  replays.fetch_add(1);
  Outcome outcome = run_on_cpu(job, job.program->trace());
  if (!outcome.failure) {
    // A fault that is no fault of the user's program.
    if (is_checked()) {
      throw fault;
    }
    TORCH_WARN(
        "the machine stopped in a program that is right; it was run again, op by op on the CPU, "
        "and its results "
        "are right. Please report it: ",
        fault.what());
  }
  return outcome;
}

// For a job that computes nothing.
Outcome not_run(const Job& job, const FailurePtr& failure) {
  Outcome outcome{std::vector<bool>(job.outputs.size()), failure};
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    outcome.whole[i] = give_back(job, i);
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
    if (!fault.inputs_intact) {
      throw;
    }
    if (is_strict()) {
      throw MachineFault(fault.what() + std::string(kNotRunAgain), /*inputs_intact=*/true);
    }
    return replay(job, fault);
  }
  return {std::vector<bool>(job.outputs.size(), true), nullptr};
}

// Of a failure of the whole program.
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
    Outcome outcome{std::vector<bool>(job.outputs.size()), failure_from(error, where(job, error))};
    for (size_t i = 0; i < job.outputs.size(); ++i) {
      try {
        outcome.whole[i] = give_back(job, i);
      } catch (const c10::OutOfMemoryError&) {
        outcome.whole[i] = false; // of the result's own failure its user will read
      }
    }
    return outcome;
  }
}

} // namespace ftm
