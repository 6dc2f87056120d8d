/* The interface between a program that uses an FTM machine and the machine itself.
 *
 * A machine is a shared library that exports these functions. The one in this repository emulates
 * the assembly on the host; another machine replaces it by exporting the same names.
 *
 * Plain C, no Python. Every function may be called from any thread. A function that can fail takes
 * `char *err, size_t err_size` and writes a message there, NUL-terminated and truncated to fit; err
 * may be NULL. Integers are little-endian two's complement, floats IEEE 754, as on the host.
 */
#ifndef FTM_MACHINE_H
#define FTM_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FTM_API __declspec(dllexport)
#else
#define FTM_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Increases with every incompatible change of this file. Compare with ftm_abi_version() after
 * loading. */
#define FTM_ABI_VERSION 3

typedef struct ftm_machine ftm_machine; /* cores, scratchpads, a queue of jobs                    */
typedef struct ftm_program ftm_program; /* a loaded image                                         */
typedef struct ftm_job ftm_job; /* one submitted run of a program                         */

/* Element types, as coded in images and in ftm_tensor_info.dtype.  FTM_B1: one byte, 0 or 1. */
/* generated: element types */
enum ftm_dtype {
  FTM_F64 = 0,
  FTM_F32 = 1,
  FTM_F16 = 2,
  FTM_BF16 = 3,
  FTM_I64 = 4,
  FTM_I32 = 5,
  FTM_I16 = 6,
  FTM_I8 = 7,
  FTM_U8 = 8,
  FTM_B1 = 9,
};
/* end */

/* Returns FTM_ABI_VERSION of the library. */
FTM_API int ftm_abi_version(void);

/* Returns one line about the build: the vector instruction set that it uses on this host. */
FTM_API const char* ftm_description(void);

typedef struct {
  uint32_t struct_size; /* sizeof(ftm_config)                                                   */
  int32_t cores; /* 1..256; 0: as many as the process may use                            */
  int32_t checked; /* 1: fault on uninitialized reads, slots in flight, ... (slow)         */
  uint64_t am_bytes; /* scratchpad sizes; ftm_load rejects a program that needs more.        */
  uint64_t sm_bytes; /*   0: unlimited                                                       */
  uint64_t gsm_bytes;
  uint64_t instructions; /* executed by one core in one run after which it faults; 0: unlimited  */
} ftm_config;

/* Opens a machine. Returns NULL on failure. Its cores are threads that sleep without jobs. */
FTM_API ftm_machine* ftm_open(const ftm_config* config, char* err, size_t err_size);

/* Finishes all submitted jobs, then frees the machine and its programs. */
FTM_API void ftm_close(ftm_machine* machine);

/* Returns the number of cores. */
FTM_API int32_t ftm_cores(const ftm_machine* machine);

/* Checks and loads an image of `size` bytes, which is copied. Returns NULL on failure. */
FTM_API ftm_program* ftm_load(
    ftm_machine* machine, const void* image, size_t size, char* err, size_t err_size);

/* Unloads a program. It is freed once its last job in flight has ended. */
FTM_API void ftm_unload(ftm_machine* machine, ftm_program* program);

typedef struct {
  const char* name; /* lives as long as the program                                         */
  int32_t dtype; /* enum ftm_dtype                                                       */
  int32_t rank; /* 0..: number of extents                                               */
  const int64_t* shape; /* rank extents; dense, row-major                                       */
  uint64_t bytes;
  int32_t alias; /* outputs: the input whose storage it may share, or -1                 */
} ftm_tensor_info;

FTM_API int32_t ftm_input_count(const ftm_program* program);
FTM_API int32_t ftm_scalar_count(const ftm_program* program);
FTM_API int32_t ftm_output_count(const ftm_program* program);
/* Describe one argument or result. Return 0, or -1 if there is no such index. A scalar has rank 0
 * and dtype FTM_F64 or FTM_I64. */
FTM_API int ftm_input_info(const ftm_program* program, int32_t index, ftm_tensor_info* info);
FTM_API int ftm_scalar_info(const ftm_program* program, int32_t index, ftm_tensor_info* info);
FTM_API int ftm_output_info(const ftm_program* program, int32_t index, ftm_tensor_info* info);
/* Returns the bytes of intermediate memory that a run needs. */
FTM_API uint64_t ftm_arena_bytes(const ftm_program* program);

/* Called once after a job has ended, on a thread of the machine, before ftm_wait returns.
 * status: as returned by ftm_wait. message: empty, or the fault. It must not block, nor call
 * ftm_wait or ftm_close. */
typedef void (*ftm_done)(void* user, int status, const char* message);

/* Queues one run and returns at once. Jobs run one after another in the order of submission.
 *
 * inputs, outputs: one address per tensor. The buffers must stay alive until the job has ended, and
 *   need only the alignment of their elements. An output may have the address of the input that it
 *   aliases (see ftm_tensor_info), but of no other input or output.
 * scalars: 8 bytes each, double or int64_t.
 * arena: ftm_arena_bytes() bytes, 64-byte aligned; NULL: the machine allocates it.
 * done, user: callback and its argument; done may be NULL.
 *
 * The arrays of addresses and scalars are copied. Returns NULL on failure (a closed machine, a
 * missing address). */
FTM_API ftm_job* ftm_submit(
    ftm_machine* machine, ftm_program* program, void* const* inputs, void* const* outputs,
    const void* scalars, void* arena, ftm_done done, void* user, char* err, size_t err_size);

/* Makes a job for ftm_run. The arguments are those of ftm_submit. A machine may lack this function
 * and ftm_run. */
FTM_API ftm_job* ftm_prepare(
    ftm_machine* machine, ftm_program* program, void* const* inputs, void* const* outputs,
    const void* scalars, void* arena, char* err, size_t err_size);

/* Runs a job of ftm_prepare and returns when it has ended. The calling thread runs a core
 * meanwhile, so no thread hands the job to another one. If other jobs run, it waits for them. Call
 * ftm_wait for the outcome. Other threads may call ftm_interrupt meanwhile. */
FTM_API void ftm_run(ftm_job* job);

/* Waits until the job has ended, and frees the handle: call exactly once, or ftm_release instead.
 *
 * Returns 0: success. 1: fault of the program; err has the message with the line of assembly. 2:
 * the same, before any donated input was overwritten. 3: ftm_interrupt stopped it, before any
 * donated input was overwritten; err has the message. 4: as 2, but a collective had started, so the
 * job must not be run again. */
FTM_API int ftm_wait(ftm_job* job, char* err, size_t err_size);

/* Waits at most `milliseconds`. Returns 1 if the job has ended, else 0. The handle stays valid. */
FTM_API int ftm_poll(const ftm_job* job, uint32_t milliseconds);

/* Requests that a job stop at its next call, backward branch or barrier, and returns at once. The
 * handle stays valid. A job that has overwritten a donated input runs to its end, since stopping
 * would lose that input. So does one that has started a collective, since other processes take part
 * in it. */
FTM_API void ftm_interrupt(ftm_job* job);

enum ftm_collective_kind {
  FTM_ALL_REDUCE = 0,
  FTM_BROADCAST = 1,
  FTM_REDUCE = 2,
  FTM_ALL_GATHER = 3,
  FTM_REDUCE_SCATTER = 4,
  FTM_ALL_TO_ALL = 5,
  FTM_GATHER = 6,
  FTM_SCATTER = 7,
  FTM_SEND = 8,
  FTM_RECV = 9,
};
enum ftm_reduction {
  FTM_REDUCTION_NONE = -1,
  FTM_REDUCTION_ADD = 0,
  FTM_REDUCTION_MUL = 1,
  FTM_REDUCTION_MIN = 2,
  FTM_REDUCTION_MAX = 3,
  FTM_REDUCTION_AVG = 4,
};

/* A collective that a program starts. */
typedef struct {
  uint32_t struct_size; /* sizeof(ftm_collective)                                               */
  int32_t kind; /* enum ftm_collective_kind                                             */
  int32_t reduction; /* enum ftm_reduction                                                   */
  int32_t dtype; /* enum ftm_dtype                                                       */
  int64_t call; /* a scalar of the program: the caller's number of this collective      */
  const void* source; /* what this process contributes; valid until `start` returns           */
  uint64_t source_count; /* elements                                                             */
  void* data; /* the result; valid until `wait` returns                               */
  uint64_t count; /* elements                                                             */
} ftm_collective;

/* How collectives are carried out. Called on threads of the machine, except for collective 0, which
 * is of this process alone. Both functions return 0, or 1 with a message in err. A program calls
 * `wait` before it reads a result, and after a fault for each collective in flight. The others are
 * in flight when the program has ended: the caller waits for them, and keeps their results' memory
 * until then. */
typedef struct {
  uint32_t struct_size; /* sizeof(ftm_collectives)                                              */
  void* user;
  /* Starts a collective, and does not wait for other processes. Calls are in program order. */
  int (*start)(void* user, const ftm_collective* collective, char* err, size_t err_size);
  /* Waits until it is complete. */
  int (*wait)(void* user, int64_t call, char* err, size_t err_size);
} ftm_collectives;

/* Sets how collectives are carried out, for jobs that are submitted later. Without it, the process
 * is alone in every group. A machine may lack this function, and then runs no programs with
 * collectives for several processes. */
FTM_API void ftm_set_collectives(ftm_machine* machine, const ftm_collectives* collectives);

/* Sets how many of the process's processors jobs leave to the caller's threads, 0 at first. A job
 * that runs notes it at its next barrier. Results do not depend on it. A machine may lack this
 * function. */
FTM_API void ftm_leave_processors(ftm_machine* machine, int32_t count);

/* Turns on (1) or off (0) the recording of spans, for jobs that start later. It costs two readings
 * of the clock for each call and core. A machine may lack this function and the next two. */
FTM_API void ftm_record_spans(ftm_machine* machine, int on);

#define FTM_BARRIER (-1)

/* The time that one core spent in one call of main, or at a barrier between calls. */
typedef struct {
  int32_t call; /* number of the call in the text of main, or FTM_BARRIER                */
  int32_t core;
  int64_t begin, end; /* nanoseconds since 1970                                                */
  uint64_t wait; /* nanoseconds of these at barriers inside of the call                   */
  uint64_t dma_bytes; /* by this core in this call, as in ftm_stats_data                       */
  uint64_t mm_flops;
  uint64_t map_operations; /* operations of maps on single elements */
} ftm_span;

/* Returns the number of spans of a job that has ended, and their address, which is valid until
 * ftm_wait or ftm_release. Spans are in order of time for each core. */
FTM_API uint64_t ftm_job_spans(const ftm_job* job, const ftm_span** spans);

/* Returns the length of a program's list of recorded operations, and its address, which is valid
 * until ftm_unload: for each call of main the number of its operations, and their numbers. */
FTM_API uint64_t ftm_call_ops(const ftm_program* program, const int64_t** words);

/* Frees the handle without waiting; the job still runs. */
FTM_API void ftm_release(ftm_job* job);

typedef struct {
  uint32_t struct_size; /* sizeof(ftm_stats_data), set by the caller                            */
  uint32_t reserved;
  uint64_t jobs; /* ended, faults included                                               */
  uint64_t faults;
  uint64_t instructions; /* of all cores; a map or a DMA is one                                  */
  uint64_t dma_bytes; /* moved between DDR and scratchpads                                    */
  uint64_t mm_flops; /* 2 M N K of each matrix product                                       */
  uint64_t map_elements; /* rows x columns of each map                                           */
  uint64_t nanoseconds; /* from the first core's start to the last core's end, summed over jobs */
} ftm_stats_data;

/* Writes the totals since the machine was opened to `stats`. */
FTM_API void ftm_stats(const ftm_machine* machine, ftm_stats_data* stats);

#ifdef __cplusplus
}
#endif
#endif
