"""The machine from Python: loads ``libftm_machine.so`` and runs program images on numpy arrays.

Any library with the interface of ``include/ftm_machine.h`` can stand in for the emulator. Arrays of
type bf16 are ``uint16`` arrays that hold the bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ftm_backend.machine.build import LIBRARY, build
from ftm_backend.target.element_types import BY_NUMBER, BY_TOKEN

ABI_VERSION = 3

_MESSAGE_BYTES = 4096
_TICK = 50  # milliseconds after which a waiting thread sees to Python's signals
_INTERRUPTED = 3

__all__ = [
    "Interrupted",
    "LoadedProgram",
    "Machine",
    "MachineError",
    "MachineJob",
    "MachineStats",
    "TensorArgument",
]


class MachineError(RuntimeError):
    """The machine refused a program, or a program did something that it must not."""


class Interrupted(MachineError):
    """`MachineJob.interrupt` stopped the program; what it would have written over is as before."""


@dataclass(frozen=True)
class TensorArgument:
    """One argument or result of a program; ``alias``: the input whose storage an output may share,
    or -1."""

    name: str
    token: str
    shape: tuple[int, ...]
    alias: int

    @property
    def dtype(self) -> np.dtype[Any]:
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


_DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


def _library(path: Path) -> Any:
    library: Any = ctypes.CDLL(str(path))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    signatures: dict[str, tuple[Any, list[Any]]] = {
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
    }
    for kind in ("input", "scalar", "output"):
        signatures[f"ftm_{kind}_count"] = (ctypes.c_int32, [pointer])
        signatures[f"ftm_{kind}_info"] = (
            ctypes.c_int,
            [pointer, ctypes.c_int32, ctypes.POINTER(_TensorInfo)],
        )
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.ftm_abi_version() != ABI_VERSION:
        raise MachineError(
            f"{path} has interface version {library.ftm_abi_version()}, expected {ABI_VERSION}"
        )
    return library


class Machine:
    """An open machine. ``cores=0``: as many as this process may use. ``checked``: find faults,
    slowly.

    ``library``: a machine of your own; default is the emulator, which is built when it is missing.
    The byte limits of the scratchpads are 0 for none; a program that needs more is refused by
    ``load``. ``instructions``: a run in which one core executes more of them is a fault; 0 for any
    number.
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
        """How many cores run a program."""
        return int(self._library.ftm_cores(self._handle))

    @property
    def description(self) -> str:
        """One line about the library."""
        return str(self._library.ftm_description().decode())

    def load(self, image: bytes) -> LoadedProgram:
        """Prepares a program image. Raises ``MachineError`` when it is damaged or asks for too
        much."""
        return LoadedProgram(self, image)

    def stats(self) -> MachineStats:
        """Totals since the machine was opened."""
        raw = _Stats(ctypes.sizeof(_Stats))
        self._library.ftm_stats(self._handle, ctypes.byref(raw))
        return MachineStats(
            *(int(getattr(raw, name)) for name in MachineStats.__dataclass_fields__)
        )

    def close(self) -> None:
        """Finishes what was submitted and ends the machine's threads."""
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
    """A loaded program: its signature, and ways to run it."""

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
        """Runs the program and returns its outputs.

        inputs: dense arrays of the declared shapes and dtypes. ``donate`` lists outputs that are
        written into the storage of the input that they alias. Raises ``MachineError`` with the line
        of assembly when the program faults, ``ValueError`` for arguments that do not fit. An
        exception of a signal handler, such as ``KeyboardInterrupt``, stops the program first.
        """
        return self.submit(inputs, scalars, donate=donate).wait()

    def submit(
        self,
        inputs: Sequence[np.ndarray],
        scalars: Sequence[float | int] = (),
        *,
        donate: Sequence[int] = (),
    ) -> MachineJob:
        """As ``run``, without waiting.  Jobs run in the order of submission."""
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
                f"{tensor.name} must be a dense {tensor.token} array of shape {tensor.shape}, found {array.dtype} of shape {array.shape}"
            )
        return array

    def __del__(self) -> None:
        if self._handle and self._machine._handle:
            self._library.ftm_unload(self._machine._handle, self._handle)
        self._handle = None


class MachineJob:
    """One submitted run; keeps its arrays alive until it has ended."""

    def __init__(
        self,
        program: LoadedProgram,
        inputs: list[np.ndarray],
        outputs: list[np.ndarray],
        scalars: np.ndarray,
    ) -> None:
        self._handle = None
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
        """Whether it has ended, or does within so many seconds."""
        return self._handle is None or bool(
            self._program._library.ftm_poll(self._handle, int(seconds * 1000))
        )

    def interrupt(self) -> None:
        """Asks it to stop at the next kernel, loop or barrier; one that has written over an input
        goes on."""
        if self._handle is not None:
            self._program._library.ftm_interrupt(self._handle)

    def wait(self) -> list[np.ndarray]:
        """Waits for the end and returns the outputs; raises ``MachineError`` for a fault.

        An exception of a signal handler interrupts the job, and is raised when it has ended.
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
        return int(self._program._library.ftm_wait(handle, self._message, _MESSAGE_BYTES))

    def __del__(self) -> None:
        if self._handle:
            self.interrupt()
            self._end()


def _addresses(arrays: list[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
