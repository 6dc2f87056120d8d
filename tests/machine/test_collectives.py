"""Collectives of the machine: who carries them out, in which order, and what a failure does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.machine import Machine, MachineError

PROGRAM = """
@program collectives, host
@in b0, f32, 4
@scalar s0, i64
@out o0, f32, 4, b0
@arena t0, 0, f32, 4
@func main
  @tile X, am, f32, 1x4, 1, 0
    SCID r1
  [r1] SBR BB_end
    DLD b0[0], 1@1 | 4@1, X
    DWAITALL
    DST X, t0[0], 1@1 | 4@1
    DWAITALL
    CSTART.ALLREDUCE.ADD t0[1], 2, b0[1], 2, s0
    WAITS
    DLD t0[0], 1@1 | 4@1, X
    DWAITALL
    DST X, o0[0], 1@1 | 4@1
    DWAITALL
  BB_end:
@ret
"""


class _Collective(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("reduction", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("call", ctypes.c_int64),
        ("source", ctypes.POINTER(ctypes.c_float)),
        ("source_count", ctypes.c_uint64),
        ("data", ctypes.POINTER(ctypes.c_float)),
        ("count", ctypes.c_uint64),
    ]


_START = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Collective), ctypes.c_void_p, ctypes.c_size_t
)
_WAIT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t
)


class _Table(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("user", ctypes.c_void_p),
        ("start", _START),
        ("wait", _WAIT),
    ]


class Carrier:
    """Adds the elements of a second process, which are all 10, when it is waited for."""

    def __init__(self, machine: Machine, error: bytes = b"") -> None:
        self.log: list[str] = []
        self._error = error
        self._started: dict[int, _Collective] = {}
        self._table = _Table(ctypes.sizeof(_Table), None, _START(self._start), _WAIT(self._wait))
        machine._library.ftm_set_collectives.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        machine._library.ftm_set_collectives(machine._handle, ctypes.byref(self._table))

    def _start(self, user, collective, err, size) -> int:
        what = collective.contents
        self.log.append(f"start {what.call}: {what.source_count} to {what.count} elements")
        for k in range(what.count):
            what.data[k] = what.source[k % what.source_count]
        self._started[what.call] = _Collective.from_buffer_copy(what)
        return 0

    def _wait(self, user, call, err, size) -> int:
        self.log.append(f"wait {call}")
        what = self._started.pop(call)
        for k in range(what.count):
            what.data[k] += 10
        ctypes.memmove(err, self._error + b"\0", len(self._error) + 1)
        return 1 if self._error else 0


@pytest.fixture(params=[False, True], ids=["fast", "checked"])
def machine(request) -> Iterator[Machine]:
    with Machine(cores=2, checked=request.param) as opened:
        yield opened


def load(machine: Machine, waits: str):
    return machine.load(assembler.assemble(PROGRAM.replace("WAITS", waits)))


X = np.array([1, 2, 3, 4], np.float32)


def test_the_caller_carries_out_collectives(machine: Machine) -> None:
    carrier = Carrier(machine)
    (result,) = load(machine, "CWAIT s0").run([X], [7])
    assert carrier.log == ["start 7: 2 to 2 elements", "wait 7"]
    np.testing.assert_array_equal(result, [1, 12, 13, 4])


def test_without_a_caller_the_process_is_alone(machine: Machine) -> None:
    (result,) = load(machine, "CWAIT s0").run([X], [7])
    np.testing.assert_array_equal(result, X)


def test_a_failure_leaves_donated_inputs_as_they_were(machine: Machine) -> None:
    carrier = Carrier(machine, b"rank 1 has ended")  # the machine does not keep its functions
    given = X.copy()
    with pytest.raises(MachineError, match=r"CWAIT s0.*rank 1 has ended"):
        load(machine, "CWAIT s0").run([given], [7], donate=[0])
    np.testing.assert_array_equal(given, X)
    assert carrier.log == ["start 7: 2 to 2 elements", "wait 7"]


def test_those_that_a_program_does_not_wait_for_are_the_callers(machine: Machine) -> None:
    """After a fault, the machine waits for them."""
    carrier = Carrier(machine)
    load(machine, "SADD 0, 0, r2").run([X], [7])
    assert carrier.log == ["start 7: 2 to 2 elements"]
    with pytest.raises(MachineError, match="collective 8, which is not in flight"):
        load(machine, "CWAIT 8").run([X], [9])
    assert carrier.log[1:] == ["start 9: 2 to 2 elements", "wait 9"]


def test_results_may_be_larger_than_what_a_process_contributes(machine: Machine) -> None:
    carrier = Carrier(machine)
    text = PROGRAM.replace("WAITS", "CWAIT s0").replace("t0[1], 2, b0[1], 2", "t0[0], 4, b0[2], 2")
    program = machine.load(assembler.assemble(text.replace("ALLREDUCE.ADD", "ALLGATHER")))
    (result,) = program.run([X], [7])
    assert carrier.log == ["start 7: 2 to 4 elements", "wait 7"]
    np.testing.assert_array_equal(result, [13, 14, 13, 14])
    with pytest.raises(MachineError, match="several processes in a group of one"):
        program.run([X], [0])  # without the caller


def test_a_process_may_get_nothing(machine: Machine) -> None:
    carrier = Carrier(machine)
    text = PROGRAM.replace("WAITS", "SADD 0, 0, r2").replace(
        "t0[1], 2, b0[1], 2", "t0[0], 0, b0[1], 2"
    )
    machine.load(assembler.assemble(text.replace("ALLREDUCE.ADD", "SEND"))).run([X], [7])
    assert carrier.log == ["start 7: 2 to 0 elements"]


def test_elements_lie_in_the_buffer(machine: Machine) -> None:
    for operands, buffer in (("t0[3], 2, b0[1], 2", "t0"), ("t0[1], 2, b0[3], 2", "b0")):
        text = PROGRAM.replace("WAITS", "CWAIT s0").replace("t0[1], 2, b0[1], 2", operands)
        with pytest.raises(MachineError, match=rf"elements 3 to 5 of {buffer}, which has 4"):
            machine.load(assembler.assemble(text)).run([X], [7])
