"""Loads ``libftm_machine.so`` and runs program images on numpy arrays.

Any library that implements ``include/ftm_machine.h`` can replace the emulator. Arrays of bf16 are
``uint16`` arrays of the bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ftm_backend.machine.build import LIBRARY, build
from ftm_backend.target.element_types import BY_NUMBER, BY_TOKEN

ABI_VERSION = 3

_MESSAGE_BYTES = 4096
_TICK = 50  # milliseconds between checks for Python signals while a thread waits
_INTERRUPTED = 3

__all__ = [
    "BARRIER",
    "Interrupted",
    "KernelSpan",
    "LoadedProgram",
    "Machine",
    "MachineError",
    "MachineJob",
    "MachineStats",
    "TensorArgument",
]


class MachineError(RuntimeError):
    """The machine rejected a program, or a program faulted."""


class Interrupted(MachineError):
    """`MachineJob.interrupt` stopped the program; its inputs are unchanged."""


@dataclass(frozen=True)
class TensorArgument:
    """One argument or result of a program.

    Attributes:
        name: Its name.
        token: Dtype token.
        shape: Extents.
        alias: For an output the index of the input whose storage it may share, or -1.
    """

    name: str
    token: str
    shape: tuple[int, ...]
    alias: int

    @property
    def dtype(self) -> np.dtype:
        """The numpy type of its elements."""
        return BY_TOKEN[self.token].array


@dataclass(frozen=True)
class MachineStats:
    """Totals since the machine was opened; see ``ftm_stats_data``."""

    jobs: int
    faults: int
    instructions: int
    dma_bytes: int
    mm_flops: int
    map_elements: int
    nanoseconds: int


@dataclass(frozen=True)
class KernelSpan:
    """The time that one core spent in one call of main, or at a barrier; see ``ftm_span``."""

    call: int
    core: int
    begin: int
    end: int
    wait: int
    dma_bytes: int
    mm_flops: int
    map_operations: int


BARRIER = -1
"""`KernelSpan.call` of a barrier between calls."""


class _Span(ctypes.Structure):
    _fields_ = [
        ("call", ctypes.c_int32),
        ("core", ctypes.c_int32),
        ("begin", ctypes.c_int64),
        ("end", ctypes.c_int64),
    ] + [(name, ctypes.c_uint64) for name in list(KernelSpan.__dataclass_fields__)[4:]]


class _Config(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("cores", ctypes.c_int32),
        ("checked", ctypes.c_int32),
        ("am_bytes", ctypes.c_uint64),
        ("sm_bytes", ctypes.c_uint64),
        ("gsm_bytes", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64),
    ]


class _TensorInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_uint64),
        ("alias", ctypes.c_int32),
    ]


class _Stats(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in MachineStats.__dataclass_fields__
    ]


_OPTIONAL = frozenset({"ftm_record_spans", "ftm_job_spans", "ftm_call_ops", "ftm_leave_processors"})
"""Functions that a machine may lack: it then has no measured profile, or leaves no processors."""

_DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


def _library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "ftm_abi_version": (ctypes.c_int, []),
        "ftm_description": (text, []),
        "ftm_open": (pointer, [ctypes.POINTER(_Config), text, size]),
        "ftm_close": (None, [pointer]),
        "ftm_cores": (ctypes.c_int32, [pointer]),
        "ftm_load": (pointer, [pointer, text, size, text, size]),
        "ftm_unload": (None, [pointer, pointer]),
        "ftm_arena_bytes": (ctypes.c_uint64, [pointer]),
        "ftm_submit": (
            pointer,
            [
                pointer,
                pointer,
                ctypes.POINTER(pointer),
                ctypes.POINTER(pointer),
                pointer,
                pointer,
                _DONE,
                pointer,
                text,
                size,
            ],
        ),
        "ftm_wait": (ctypes.c_int, [pointer, text, size]),
        "ftm_poll": (ctypes.c_int, [pointer, ctypes.c_uint32]),
        "ftm_interrupt": (None, [pointer]),
        "ftm_release": (None, [pointer]),
        "ftm_stats": (None, [pointer, ctypes.POINTER(_Stats)]),
        "ftm_record_spans": (None, [pointer, ctypes.c_int]),
        "ftm_leave_processors": (None, [pointer, ctypes.c_int32]),
        "ftm_job_spans": (
            ctypes.c_uint64,
            [pointer, ctypes.POINTER(ctypes.POINTER(_Span))],
        ),
        "ftm_call_ops": (
            ctypes.c_uint64,
            [pointer, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))],
        ),
    }
    for kind in ("input", "scalar", "output"):
        signatures[f"ftm_{kind}_count"] = (ctypes.c_int32, [pointer])
        signatures[f"ftm_{kind}_info"] = (
            ctypes.c_int,
            [pointer, ctypes.c_int32, ctypes.POINTER(_TensorInfo)],
        )
    for name, (result, arguments) in signatures.items():
        if name in _OPTIONAL and not hasattr(library, name):
            setattr(library, name, lambda *_: 0)  # this machine records nothing
            continue
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.ftm_abi_version() != ABI_VERSION:
        raise MachineError(
            f"{path} has interface version {library.ftm_abi_version()}, expected {ABI_VERSION}"
        )
    return library


class Machine:
    """An open machine.

    Args:
        cores: Number of cores; 0: as many as this process may use.
        checked: Detect more faults, slowly.
        library: A machine library; by default the emulator, which is built if it is missing.
        am_bytes: Size of AM per core; 0: unlimited. `load` rejects a program that needs more.
        sm_bytes: Likewise for SM.
        gsm_bytes: Likewise for GSM, shared by all cores.
        instructions: Instructions of one core after which a run faults; 0: unlimited.

    Raises:
        MachineError: The machine cannot be opened.
    """

    def __init__(
        self,
        cores: int = 0,
        checked: bool = False,
        *,
        library: Path | str | None = None,
        am_bytes: int = 0,
        sm_bytes: int = 0,
        gsm_bytes: int = 0,
        instructions: int = 0,
    ) -> None:
        self._handle = None
        if library is None:
            library = LIBRARY if LIBRARY.exists() else build()
        self._library = _library(Path(library))
        config = _Config(
            ctypes.sizeof(_Config), cores, int(checked), am_bytes, sm_bytes, gsm_bytes, instructions
        )
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._handle = self._library.ftm_open(ctypes.byref(config), message, _MESSAGE_BYTES)
        if not self._handle:
            raise MachineError(message.value.decode(errors="replace"))

    @property
    def cores(self) -> int:
        """Number of cores that execute a program."""
        return int(self._library.ftm_cores(self._handle))

    @property
    def description(self) -> str:
        """One line about the library."""
        return str(self._library.ftm_description().decode())

    def load(self, image: bytes) -> LoadedProgram:
        """Load an image; raise MachineError if it is damaged or needs too large scratchpads."""
        return LoadedProgram(self, image)

    def stats(self) -> MachineStats:
        """Return totals since the machine was opened."""
        raw = _Stats(ctypes.sizeof(_Stats))
        self._library.ftm_stats(self._handle, ctypes.byref(raw))
        return MachineStats(
            *(int(getattr(raw, name)) for name in MachineStats.__dataclass_fields__)
        )

    def leave_processors(self, count: int) -> None:
        """Leave processors of this process to its other threads, from the next barrier on.

        Args:
            count: Their number, 0 at first. One thread always runs programs.
        """
        self._library.ftm_leave_processors(self._handle, count)

    def record_spans(self, on: bool = True) -> None:
        """Record when each core is in each call, for jobs that start later."""
        self._library.ftm_record_spans(self._handle, int(on))

    def close(self) -> None:
        """Finish submitted jobs and end the machine's threads."""
        handle, self._handle = self._handle, None
        if handle:
            self._library.ftm_close(handle)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class LoadedProgram:
    """A loaded program: its signature, and methods to run it."""

    def __init__(self, machine: Machine, image: bytes) -> None:
        self._handle = None
        self._machine, self._library = machine, machine._library
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._handle = self._library.ftm_load(
            machine._handle, image, len(image), message, _MESSAGE_BYTES
        )
        if not self._handle:
            raise MachineError(message.value.decode(errors="replace"))
        self.inputs = self._tensors("input")
        self.scalars = self._tensors("scalar")
        self.outputs = self._tensors("output")
        self.arena_bytes = int(self._library.ftm_arena_bytes(self._handle))
        self.call_ops = self._call_ops()

    def _call_ops(self) -> list[tuple[int, ...]]:
        """Return the recorded operations of each call of main, the costliest first."""
        address = ctypes.POINTER(ctypes.c_int64)()
        count = self._library.ftm_call_ops(self._handle, ctypes.byref(address))
        words, ops = address[:count], []
        while words:
            length = words[0]
            ops.append(tuple(words[1 : 1 + length]))
            words = words[1 + length :]
        return ops

    def _tensors(self, kind: str) -> tuple[TensorArgument, ...]:
        info, found = _TensorInfo(), []
        for index in range(getattr(self._library, f"ftm_{kind}_count")(self._handle)):
            getattr(self._library, f"ftm_{kind}_info")(self._handle, index, ctypes.byref(info))
            shape = tuple(info.shape[k] for k in range(info.rank))
            found.append(
                TensorArgument(
                    info.name.decode(errors="replace"),
                    BY_NUMBER[info.dtype].token,
                    shape,
                    info.alias,
                )
            )
        return tuple(found)

    def run(
        self,
        inputs: Sequence[np.ndarray],
        scalars: Sequence[float | int] = (),
        *,
        donate: Sequence[int] = (),
    ) -> list[np.ndarray]:
        """Run the program and return its outputs.

        Args:
            inputs: Dense arrays of the declared shapes and dtypes.
            scalars: Values of the runtime scalars.
            donate: Indices of outputs to write into the storage of the input that they alias.

        Raises:
            MachineError: The program faulted; the message has the line of assembly.
            ValueError: An argument does not match the signature.

        An exception of a signal handler, such as ``KeyboardInterrupt``, stops the program first.
        """
        return self.submit(inputs, scalars, donate=donate).wait()

    def submit(
        self,
        inputs: Sequence[np.ndarray],
        scalars: Sequence[float | int] = (),
        *,
        donate: Sequence[int] = (),
    ) -> MachineJob:
        """Start a run without waiting for it; see `run`. Jobs run in the order of submission."""
        arrays = [
            self._checked(array, tensor) for array, tensor in zip(inputs, self.inputs, strict=True)
        ]
        outputs = []
        for number, tensor in enumerate(self.outputs):
            if number in donate:
                if tensor.alias < 0:
                    raise ValueError(f"output {tensor.name} aliases no input")
                outputs.append(arrays[tensor.alias].view(tensor.dtype).reshape(tensor.shape))
            else:
                outputs.append(np.empty(tensor.shape, tensor.dtype))
        packed = np.zeros(max(1, len(self.scalars)), np.int64)
        for number, (value, tensor) in enumerate(zip(scalars, self.scalars, strict=True)):
            packed[number : number + 1].view(tensor.dtype)[0] = value
        return MachineJob(self, arrays, outputs, packed)

    @staticmethod
    def _checked(array: np.ndarray, tensor: TensorArgument) -> np.ndarray:
        if (
            array.dtype != tensor.dtype
            or array.shape != tensor.shape
            or not array.flags.c_contiguous
        ):
            raise ValueError(
                f"{tensor.name} must be a dense {tensor.token} array of shape {tensor.shape}, "
                f"found {array.dtype} of shape {array.shape}"
            )
        return array

    def __del__(self) -> None:
        if self._handle and self._machine._handle:
            self._library.ftm_unload(self._machine._handle, self._handle)
        self._handle = None


class MachineJob:
    """One submitted run; keeps its arrays alive until it has ended.

    Attributes:
        spans: When each core was in each call, if the machine recorded it; set by `wait`.
    """

    def __init__(
        self,
        program: LoadedProgram,
        inputs: list[np.ndarray],
        outputs: list[np.ndarray],
        scalars: np.ndarray,
    ) -> None:
        self._handle = None
        self.spans: list[KernelSpan] = []
        self._program, self._inputs, self._outputs, self._scalars = (
            program,
            inputs,
            outputs,
            scalars,
        )
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._handle = program._library.ftm_submit(
            program._machine._handle,
            program._handle,
            _addresses(inputs),
            _addresses(outputs),
            scalars.ctypes.data,
            None,
            _DONE(),
            None,
            self._message,
            _MESSAGE_BYTES,
        )
        if not self._handle:
            raise MachineError(self._message.value.decode(errors="replace"))

    def done(self, seconds: float = 0.0) -> bool:
        """Whether it has ended, or does so within ``seconds``."""
        return self._handle is None or bool(
            self._program._library.ftm_poll(self._handle, int(seconds * 1000))
        )

    def interrupt(self) -> None:
        """Stop at the next call, backward branch or barrier, unless an input was overwritten."""
        if self._handle is not None:
            self._program._library.ftm_interrupt(self._handle)

    def wait(self) -> list[np.ndarray]:
        """Wait for the end and return the outputs; raise MachineError after a fault.

        An exception of a signal handler interrupts the job and is raised once the job has ended.
        """
        if self._handle is None:
            return self._outputs
        try:
            while not self._program._library.ftm_poll(self._handle, _TICK):
                pass
        except BaseException:
            self.interrupt()
            self._end()
            raise
        status = self._end()
        if status:
            text = self._message.value.decode(errors="replace")
            raise Interrupted(text) if status == _INTERRUPTED else MachineError(text)
        return self._outputs

    def _end(self) -> int:
        handle, self._handle = self._handle, None
        address = ctypes.POINTER(_Span)()
        count = self._program._library.ftm_job_spans(handle, ctypes.byref(address))
        self.spans = [
            KernelSpan(*(getattr(span, name) for name in KernelSpan.__dataclass_fields__))
            for span in address[:count]
        ]
        return int(self._program._library.ftm_wait(handle, self._message, _MESSAGE_BYTES))

    def __del__(self) -> None:
        if self._handle:
            self.interrupt()
            self._end()


def _addresses(arrays: list[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
