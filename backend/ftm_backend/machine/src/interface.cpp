// The C interface of ftm_machine.h over the classes in machine.h.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "isa_gen.h"
#include "machine.h"

struct ftm_machine {
  ftm::Machine machine;
  ftm_machine(int32_t cores, bool checked, const int64_t (&limits)[4], uint64_t instructions)
      : machine(cores, checked, limits, instructions) {}
};
struct ftm_program { std::shared_ptr<ftm::Loaded> loaded; };
struct ftm_job {
  std::shared_ptr<ftm::Job> job;
  ftm::Machine& machine;
};

namespace {

using ftm::Error;

void tell(char* err, size_t size, const char* message) {
  if (err && size > 0) std::snprintf(err, size, "%s", message);
}

// Returns f(), or `failed` with the exception's message in err.
template <class R, class F>
R guarded(char* err, size_t size, R failed, F f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    tell(err, size, "out of memory");
  } catch (const std::exception& e) {
    tell(err, size, e.what());
  }
  return failed;
}

std::shared_ptr<ftm::Job> make_job(
    ftm_program& program, void* const* inputs, void* const* outputs, const void* scalars,
    void* arena) {
  ftm::Program& p = *program.loaded->program;
  auto job = std::make_shared<ftm::Job>();
  job->loaded = program.loaded;
  job->arena = static_cast<uint8_t*>(arena);
  job->buffers.resize(p.buffers.size());
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const ftm::BufferDecl& b = p.buffers[i];
    uint8_t*& at = job->buffers[i];
    if (b.kind == ftm::isa::FTM_BUFFER_CONST) at = p.constants.data() + b.offset;
    if (i >= size_t(p.inputs) + size_t(p.outputs)) continue;
    at = static_cast<uint8_t*>(i < size_t(p.inputs) ? inputs[i] : outputs[i - size_t(p.inputs)]);
    if (!at && b.bytes > 0) throw Error("ftm_submit: no address for " + b.name);
  }
  job->donated.resize(p.buffers.size());
  for (int32_t i = p.inputs; i < p.inputs + p.outputs; ++i) {
    const int32_t input = p.buffers[size_t(i)].alias;
    job->donated[size_t(i)] = input >= 0 && job->buffers[size_t(i)] == job->buffers[size_t(input)];
  }
  job->scalars.resize(size_t(p.scalars));
  if (!job->scalars.empty()) std::memcpy(job->scalars.data(), scalars, job->scalars.size() * 8);
  return job;
}

int tensor_info(
    const ftm_program* program, int32_t first, int32_t count, int32_t index,
    ftm_tensor_info* info) {
  if (index < 0 || index >= count) return -1;
  const ftm::BufferDecl& b = program->loaded->program->buffers[size_t(first) + size_t(index)];
  *info = {b.name.c_str(), int32_t(b.type),   int32_t(b.shape.size()),
           b.shape.data(), uint64_t(b.bytes), b.alias};
  return 0;
}

} // namespace

int ftm_abi_version(void) {
  return FTM_ABI_VERSION;
}

const char* ftm_description(void) {
  static const std::string text = std::string("FTM emulator, kernels: ") + ftm::kernels().name;
  return text.c_str();
}

ftm_machine* ftm_open(const ftm_config* config, char* err, size_t err_size) {
  return guarded<ftm_machine*>(err, err_size, nullptr, [&] {
    if (!config || config->struct_size < sizeof(ftm_config))
      throw Error("ftm_open: struct_size of the config is not set");
    if (config->cores < 0 || config->cores > 256)
      throw Error("cores must be 1 to 256, or 0 for all: " + std::to_string(config->cores));
    const int32_t cores = config->cores ? config->cores : ftm::usable_processors();
    const int64_t limits[4] = {
        0, int64_t(config->am_bytes), int64_t(config->sm_bytes), int64_t(config->gsm_bytes)};
    return new ftm_machine(cores, config->checked != 0, limits, config->instructions);
  });
}

void ftm_close(ftm_machine* machine) {
  delete machine;
}

int32_t ftm_cores(const ftm_machine* machine) {
  return machine->machine.cores();
}

ftm_program* ftm_load(
    ftm_machine* machine, const void* image, size_t size, char* err, size_t err_size) {
  return guarded<ftm_program*>(
      err, err_size, nullptr, [&] { return new ftm_program{machine->machine.load(image, size)}; });
}

void ftm_unload(ftm_machine*, ftm_program* program) {
  delete program;
}

int32_t ftm_input_count(const ftm_program* program) {
  return program->loaded->program->inputs;
}
int32_t ftm_output_count(const ftm_program* program) {
  return program->loaded->program->outputs;
}
int32_t ftm_scalar_count(const ftm_program* program) {
  return program->loaded->program->scalars;
}

int ftm_input_info(const ftm_program* program, int32_t index, ftm_tensor_info* info) {
  return tensor_info(program, 0, ftm_input_count(program), index, info);
}
int ftm_output_info(const ftm_program* program, int32_t index, ftm_tensor_info* info) {
  return tensor_info(program, ftm_input_count(program), ftm_output_count(program), index, info);
}
int ftm_scalar_info(const ftm_program* program, int32_t index, ftm_tensor_info* info) {
  if (index < 0 || index >= ftm_scalar_count(program)) return -1;
  const ftm::Program& p = *program->loaded->program;
  *info = {p.scalar_names[size_t(index)].c_str(),
           int32_t(p.scalar_types[size_t(index)]),
           0,
           nullptr,
           8,
           -1};
  return 0;
}

uint64_t ftm_arena_bytes(const ftm_program* program) {
  return uint64_t(program->loaded->program->arena_bytes);
}

ftm_job* ftm_prepare(
    ftm_machine* machine, ftm_program* program, void* const* inputs, void* const* outputs,
    const void* scalars, void* arena, char* err, size_t err_size) {
  return guarded<ftm_job*>(err, err_size, nullptr, [&] {
    return new ftm_job{make_job(*program, inputs, outputs, scalars, arena), machine->machine};
  });
}

void ftm_run(ftm_job* handle) {
  try {
    handle->machine.run(*handle->job);
  } catch (const std::exception& e) {
    handle->job->fault = e.what();
    handle->job->ended = true;
  }
}

ftm_job* ftm_submit(
    ftm_machine* machine, ftm_program* program, void* const* inputs, void* const* outputs,
    const void* scalars, void* arena, ftm_done done, void* user, char* err, size_t err_size) {
  return guarded<ftm_job*>(err, err_size, nullptr, [&] {
    auto job = make_job(*program, inputs, outputs, scalars, arena);
    job->done = done;
    job->user = user;
    machine->machine.submit(job);
    return new ftm_job{std::move(job), machine->machine};
  });
}

int ftm_wait(ftm_job* handle, char* err, size_t err_size) {
  const std::shared_ptr<ftm::Job> job = std::move(handle->job);
  delete handle;
  std::unique_lock<std::mutex> lock(job->mutex);
  job->changed.wait(lock, [&] { return job->ended; });
  tell(err, err_size, job->fault.c_str());
  if (job->fault.empty()) return 0;
  if (job->interrupted) return 3;
  switch (job->phase.load(std::memory_order_relaxed)) {
    case ftm::Phase::overwritten: return 1;
    case ftm::Phase::communicated: return 4;
    default: return 2;
  }
}

int ftm_poll(const ftm_job* handle, uint32_t milliseconds) {
  ftm::Job& job = *handle->job;
  std::unique_lock<std::mutex> lock(job.mutex);
  return job.changed.wait_for(
      lock, std::chrono::milliseconds(milliseconds), [&] { return job.ended; });
}

void ftm_interrupt(ftm_job* handle) {
  ftm::Phase found = ftm::Phase::whole;
  handle->job->phase.compare_exchange_strong(
      found, ftm::Phase::stopping, std::memory_order_relaxed);
}

void ftm_set_collectives(ftm_machine* machine, const ftm_collectives* collectives) {
  machine->machine.set_collectives(*collectives);
}

void ftm_leave_processors(ftm_machine* machine, int32_t count) {
  machine->machine.leave_processors(count);
}

void ftm_record_spans(ftm_machine* machine, int on) {
  machine->machine.record_spans(on != 0);
}

uint64_t ftm_job_spans(const ftm_job* handle, const ftm_span** spans) {
  *spans = handle->job->spans.data();
  return handle->job->spans.size();
}

uint64_t ftm_call_ops(const ftm_program* program, const int64_t** words) {
  const std::vector<int64_t>& ops = program->loaded->program->call_ops;
  *words = ops.data();
  return ops.size();
}

void ftm_release(ftm_job* handle) {
  delete handle;
}

void ftm_stats(const ftm_machine* machine, ftm_stats_data* stats) {
  const ftm_stats_data all = machine->machine.stats();
  const uint32_t size = stats->struct_size < sizeof all ? stats->struct_size : uint32_t(sizeof all);
  std::memcpy(stats, &all, size);
  stats->struct_size = size;
}
