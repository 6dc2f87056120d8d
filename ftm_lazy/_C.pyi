"""The recorder: the extension module that `csrc/torch/module.cpp` and `csrc/capture/` define."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Concatenate, Literal, ParamSpec, TypeVar

import torch
import torch.distributed
from torch import Tensor

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Called with a trace, the lines that recorded its calls, the varying dimensions of each
# parameter (bit masks), whether the trace trains, whether these sizes may have any value, the
# trace's number, and why the machine rejected an earlier image ("" at first). Returns (image,
# varying dimensions of each result), or the reason for a failure.
_Compile = Callable[..., tuple[bytes, Sequence[int]] | str]
# Called with a program's trace, inputs, scalars and outputs.
_Observer = Callable[[_RecordedTrace, list[Tensor], list[float], list[Tensor]], None]

class _RecordedTrace:
    """A trace; `ftm_lazy.compile.trace_importer` converts it."""

    def params(self) -> list[tuple[str, tuple[int, ...]]]:
        """Dtype token and shape of each parameter."""

    def scalars(self) -> list[str]:
        """Dtype token of each runtime scalar."""

    def calls(self) -> list[tuple[bytes, tuple[int, ...]]]:
        """Key of the specification, and numbers of the operands, of each call."""

    def results(self) -> list[int]:
        """Numbers of the values that the trace returns."""

    def spec(
        self, call: int
    ) -> tuple[str, list[tuple[str, str, object]], list[tuple[str, tuple[int, ...]] | None]]:
        """Op, arguments (name, kind, data) and result types of a call."""

class _Capture:
    """A recording on placeholders, on the calling thread."""

    def __init__(self) -> None:
        """Begin; raises RuntimeError if this thread is capturing."""

    def placeholder(
        self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, /
    ) -> Tensor:
        """Make the next input, a tensor without elements."""

    def finish(self, outputs: Sequence[Tensor], on_cpu: Sequence[bool], /) -> _Captured:
        """Make the program that returns ``outputs``; ``on_cpu`` is where each is returned."""

    def end(self) -> None:
        """End the recording; may be called twice."""

class _Captured:
    """A captured program."""

    @property
    def trace(self) -> _RecordedTrace:
        """The trace."""

    @property
    def parameters(self) -> list[tuple[int | None, Tensor | None, int, list[int]]]:
        """(placeholder, constant, offset in elements, sizes) of each parameter of the trace."""

    @property
    def outputs(
        self,
    ) -> list[tuple[int | None, int | None, Tensor | None, str, list[int], list[int], int]]:
        """(result, input, constant, dtype token, sizes, strides, offset) of each output."""

    @property
    def replaces(self) -> list[int]:
        """The placeholder that each result of the trace replaces, or -1."""

    @property
    def scalars(self) -> list[float]:
        """The scalar operands as they were captured."""

    @property
    def draws(self) -> list[tuple[int, int, int]]:
        """(position of the seed, of the offset, number of the draw) among ``scalars``."""

    @property
    def draws_made(self) -> int:
        """The number of random draws of one run."""

    def build(self) -> None:
        """Look up or compile the program, once."""

    def launch(self, inputs: list[Tensor], op_by_op: bool = False) -> list[Tensor]:
        """Run on one tensor per placeholder; empties the list of inputs."""

class _GraphCall:
    """A program as the function of an FX graph."""

    def __init__(
        self,
        program: _Captured,
        takes: Sequence[int],
        constants: Sequence[Tensor],
        gives: Sequence[int | None],
    ) -> None:
        """Map a graph's inputs to the program's and the program's outputs to the graph's.

        Args:
            program: The program.
            takes: For each input of the program, the graph's input, or -1 - k for constant k.
            constants: Further inputs of the program.
            gives: For each output of the graph, the program's output, -1 - k for the graph's input
                k, or None.
        """

    def __call__(self, inputs: list[Tensor], /) -> list[Tensor | None]:
        """Run the program; empties the list of inputs."""

class _AutogradCall:
    """A forward and a backward graph as an autograd function."""

    def __init__(
        self,
        forward: _GraphCall,
        backward: _GraphCall,
        differentiable: Sequence[bool],
        deterministic: bool,
    ) -> None:
        """Combine two graphs.

        Args:
            forward: Returns the results, then the values saved for ``backward``.
            backward: Takes the saved values and a gradient per differentiable result; returns a
                gradient or None per input of ``forward``.
            differentiable: For each result, whether it has a gradient.
            deterministic: Whether PyTorch's deterministic mode was on when the graphs were made.
        """

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Run the forward graph and record the backward graph."""

def _init(
    native_ops: Mapping[str, Sequence[str]],
    machine_library: str,
    cores: int,
    checked: bool,
    instruction_limit: int,
    compile_fn: _Compile | None,
) -> None:
    """Set the compiled ops and the compiler, and open the machine ("" for none)."""

def _launch_collectives() -> None:
    """Launch the pending traces that have collectives."""

def _shutdown(patience: float) -> None:
    """Stop the recorder's threads at the end of the process."""

# Traces and launches.
def _run_backward(
    run: Callable[Concatenate[Sequence[Tensor], _P], _R],
    outputs: Sequence[Tensor],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _R: ...
def _begin_step() -> None: ...
def _end_step(optimizer: int) -> None: ...
def _sync(wait: bool = False) -> None: ...
def _wait() -> None: ...
def _wait_for_compilations() -> None: ...
def _recording_thread() -> int:
    """Return the ident of the thread whose trace has this thread's calls.

    Autograd's threads record for the thread that called `backward`.
    """

def _trace(tensors: Sequence[Tensor]) -> _RecordedTrace: ...
def _forbid_launch(why: str, /) -> None: ...
def _forbidden_launch() -> str: ...
def _launches() -> int: ...
def _last_program() -> str: ...

# Counters and metrics.
def _counters() -> dict[str, int]: ...
def _recorded_calls() -> dict[str, int]: ...
def _count(name: str, n: int = 1) -> None: ...
def _reset_counters() -> None: ...
def _metric_names() -> list[str]: ...
def _metric_data(name: str, /) -> tuple[int, float, list[tuple[float, float]]] | None: ...
def _metric_report(names: Sequence[str], /) -> str: ...
def _add_time(name: str, seconds: float, /) -> None: ...
def _reset_metrics() -> None: ...

# Random numbers.
def _initial_seed() -> int: ...
def _get_rng_state(device: int) -> bytes: ...
def _set_rng_state(state: bytes, device: int) -> None: ...
def _default_generator(device: int) -> torch.Generator: ...

# Memory.
def _read_only_dlpack(tensor: Tensor) -> object: ...
def _memory_segments() -> list[tuple[int, int, int, int]]: ...
def _set_memory_fraction(fraction: float, device: int, /) -> None: ...
def _memory_fraction(device: int, /) -> float: ...
def _reset_peak_memory_stats(device: int, /) -> None: ...
def _reset_accumulated_memory_stats(device: int, /) -> None: ...
def _empty_cache() -> None: ...

# Profiles.
def _start_profile() -> None:
    """Begin to record; raises RuntimeError if a profile is being recorded."""

def _stop_profile() -> tuple[
    # runs: number, calls, begin, end, line of the launch, whether it ran on the machine, and
    # (module, line, is backward) of each result
    list[tuple[int, int, int, int, str, bool, list[tuple[str, str, bool]]]],
    # kernels: name, module, ops, line, result type, is backward, index of the run, number in the
    # program, begin, end, elapsed, busy, bytes, operations of products, operations of maps
    list[tuple[str, str, str, str, str, bool, int, int, int, int, int, int, int, int, int]],
    # cores: index of the kernel or -1, core, begin, end
    list[tuple[int, int, int, int]],
    # host: kind, name, line, begin, end, thread, bytes
    list[tuple[str, str, str, int, int, int, int]],
    # memory: time, address, bytes, number of the run, result or -1
    list[tuple[int, int, int, int, int]],
]:
    """Wait for all programs and return what was recorded; times are nanoseconds since 1970."""

def _is_profiling() -> bool: ...
def _add_event(kind: str, name: str, line: str, begin: int, end: int) -> None: ...
def _block_address(tensor: Tensor) -> int: ...
def _follow_modules(on: bool, /) -> None: ...
def _push_module(path: str, /) -> None: ...
def _pop_module() -> None: ...

# Settings.
def _set_recording(rows: Sequence[tuple[str, Mapping[str, Sequence[str]]]]) -> None: ...
def _set_native_ops(native_ops: Mapping[str, Sequence[str]]) -> None: ...
def _set_strict(strict: bool, /) -> None: ...
def _set_compile_at_launch(always: bool, /) -> None: ...
def _set_compile_threads(count: int, /) -> None: ...
def _set_trace_limit(nodes: int, /) -> None: ...
def _set_loop_length(calls: int, /) -> None: ...
def _set_max_in_flight(jobs: int, /) -> None: ...
def _set_executor(name: str, /) -> None: ...
def _executor() -> Literal["machine", "reference"]: ...
def _set_observer(fn: _Observer | None) -> None: ...
def _set_debug_locations(all: bool, /) -> None: ...
def _set_library_folders(folders: Sequence[str], /) -> None: ...
def _set_program_limit(programs: int, instance_bytes: int, /) -> None: ...
def _program_count() -> int: ...
def _reset() -> None: ...

# The device.
def _in_bad_fork() -> bool: ...
def _device_count() -> int: ...
def _set_device_count(count: int, /) -> None: ...
def _current_device() -> int: ...
def _set_current_device(index: int, /) -> None: ...

class GroupOptions(torch._C._distributed_c10d.Backend.Options):
    """Options of a group of torch.distributed's backend ``ftm``."""

    def __init__(self, timeout: timedelta) -> None: ...

class GroupBackend(torch._C._distributed_c10d.Backend):
    """torch.distributed's backend ``ftm``, for one group. `make_carrier` makes CPU backends."""

    def __init__(
        self,
        store: torch.distributed.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        make_carrier: Callable[..., torch._C._distributed_c10d.Backend],
    ) -> None: ...
    @property
    def options(self) -> GroupOptions: ...
    def perform_nocolor_split(self, device: torch.device) -> None: ...

def _device_was_used() -> bool: ...
