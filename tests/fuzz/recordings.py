"""Recorded programs: random sequences of calls, tried on the CPU and on ftm, whose errors and
results must be the same.

A case is text: a line that says how it runs (executor, which ops are recorded, threads), then one
step a line, a name and numbers. What the numbers mean depends on what there is when the step is
made (the tensor of that number, a dimension, an offset), so any change of a text is a text again:
`make` writes them at random, and `attempt` runs them.

Values are small integers where they can be, and each storage knows whether what it holds is exact:
what decides by a comparison (argmax, floor, a mask) is only asked of exact ones. Steps are in
``recording_steps.py``.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from ftm_backend.frontend.ops import native_ops
from ftm_lazy import _C
from ftm_lazy.device import registration
from fuzz.recording_steps import STEPS, Step, Tensors

MOST_ELEMENTS = 4096
MOST_TENSORS = 24
EVERY_OP: dict[str, list[str]] = {"*": []}
TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
FAILURES = (
    RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, torch.OutOfMemoryError,
)  # fmt: skip


class Difference(Exception):
    """ftm gave another result than the CPU, or another error, or none."""


@dataclass
class Side:
    """What a program has made on one device."""

    device: str
    anything: bool  # dtypes that an op does not take on the CPU are recorded as well
    tensors: Tensors = field(default_factory=list)


def make(rng: random.Random) -> bytes:
    """A random case."""
    executor = rng.choices(("reference", "machine"), (12, 1))[0]
    recorded = rng.choice(("every", "compiled"))
    count = rng.randint(3, 40) if executor == "reference" else rng.randint(3, 15)
    lines = [f"{executor} {recorded}"]
    weights = [step.weight for step in STEPS.values()]
    for name in [*rng.choices(("fresh",), k=3), *rng.choices(list(STEPS), weights, k=count)]:
        lines.append(
            f"{name}: "
            + " ".join(str(rng.choice((rng.randrange(4), rng.randrange(1000)))) for _ in range(8))
        )
    return "\n".join(lines).encode()


def attempt(data: bytes) -> None:
    """Runs a case; raises `Difference` where the devices do not agree."""
    warnings.simplefilter("ignore")
    first, *lines = data.decode().splitlines()
    executor, recorded = first.split()
    registration.initialize()
    _C._set_executor(executor)
    _C._set_native_ops(
        EVERY_OP
        if recorded == "every"
        else {name: list(kinds) for name, kinds in native_ops().items()}
    )
    sides = Side("cpu", recorded == "every"), Side("ftm", recorded == "every")
    inexact: set[int] = set()
    try:
        for number, line in enumerate(lines, start=2):
            name, numbers = line.split(": ")
            try:
                if not _step(STEPS[name], [int(n) for n in numbers.split()], *sides, inexact):
                    return
            except Difference as found:
                raise Difference(f"line {number}, {line}: {found}") from None
        _compare_all(*sides, inexact)
    finally:
        for side in sides:
            side.tensors.clear()
        with contextlib.suppress(*FAILURES):
            _C._sync(True)


def _step(step: Step, numbers: list[int], cpu: Side, ftm: Side, inexact: set[int]) -> bool:
    """One step on both sides; False where the program ends, since what was lost with an error is
    not the same on both."""
    if step.special:
        return _special(step, numbers, cpu, ftm, inexact)
    arguments = _operands(step, numbers, cpu)
    if step.decides and any(_storage(cpu.tensors[k]) in inexact for k in arguments):
        return True
    if step.writes and _overlap([cpu.tensors[k] for k in arguments]):
        return True
    wanted, failure = _run(step, cpu, numbers)
    if failure is None and any(t.numel() > MOST_ELEMENTS for t in wanted):
        return False
    found, raised = _run(step, ftm, numbers)
    if failure is not None and raised is None:
        raised = _synchronize()
    if failure is not None and raised is None and cpu.anything:
        return False
    if (failure is None) != (raised is None):
        raise Difference(f"CPU: {_told(failure)}; ftm: {_told(raised)}")
    if failure is not None:
        return not step.writes
    _taint(step, [cpu.tensors[k] for k in arguments], wanted, inexact)
    for a, b in zip(wanted, found, strict=True):
        if (a.shape, a.dtype, a.requires_grad) != (b.shape, b.dtype, b.requires_grad):
            raise Difference(f"CPU: {_form(a)}; ftm: {_form(b)}")
    for side, results in ((cpu, wanted), (ftm, found)):
        side.tensors.extend(results)
        del side.tensors[: max(0, len(side.tensors) - MOST_TENSORS)]
    return True


def _operands(step: Step, numbers: list[int], side: Side) -> list[int]:
    return [n % len(side.tensors) for n in numbers[: step.operands]] if side.tensors else []


def _run(step: Step, side: Side, numbers: list[int]) -> tuple[list[torch.Tensor], Exception | None]:
    operands = [side.tensors[k] for k in _operands(step, numbers, side)]
    try:
        made = step.run(side.device, operands, numbers[step.operands :])
    except FAILURES as error:
        return [], error
    return [t for t in made if isinstance(t, torch.Tensor)], None


def _taint(
    step: Step, operands: list[torch.Tensor], results: list[torch.Tensor], inexact: set[int]
) -> None:
    """Marks storages whose values are rounded, by the step itself or by what it read."""
    tainted = not step.exact or any(_storage(t) in inexact for t in operands)
    for tensor in [*results, *(operands if step.writes else [])]:
        large = (
            tensor.dtype.is_floating_point
            and tensor.numel()
            and tensor.detach().abs().max().item() >= (64 if tensor.element_size() == 2 else 1e5)
        )
        if tainted or large:
            inexact.add(_storage(tensor))


def _overlap(operands: list[torch.Tensor]) -> bool:
    """Whether the first may share elements with another, or has one twice, in a way that eager
    neither finds out nor defines."""
    first, *others = operands
    if 0 not in first.stride() and _has_one_twice(first):
        return True
    return any(
        other is not first
        and _storage(other) == _storage(first)
        and not (first.is_contiguous() and other.is_contiguous())
        for other in others
    )


def _has_one_twice(tensor: torch.Tensor) -> bool:
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = places[..., None] + torch.arange(size) * stride
    return places.unique().numel() != places.numel()


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _synchronize() -> Exception | None:
    try:
        _C._sync(True)
    except FAILURES as error:
        return error
    return None


def _special(step: Step, numbers: list[int], cpu: Side, ftm: Side, inexact: set[int]) -> bool:
    """Steps of the device alone: none changes what there is."""
    if step.special == "read":
        _compare_all(cpu, ftm, inexact)
    elif step.special == "sync":
        _C._sync(bool(numbers[0] % 2))
    elif step.special == "interrupt":
        return _interrupted(ftm, numbers[0])
    elif step.special == "thread":
        _in_threads(ftm)
    return True


def _interrupted(ftm: Side, delay: int) -> bool:
    """Ctrl-C around a synchronization: it is over with KeyboardInterrupt or without, and never
    stuck."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(delay % 40 / 1e4, lambda: signal.raise_signal(signal.SIGINT))
    try:
        timer.start()
        for tensor in ftm.tensors:
            tensor.cpu()
        timer.join()
        time.sleep(0)
    except KeyboardInterrupt:
        pass
    except FAILURES:
        return False
    finally:
        try:
            timer.join()
        except KeyboardInterrupt:
            timer.join()
        signal.signal(signal.SIGINT, handler)
    return _synchronize() is None


def _in_threads(ftm: Side) -> None:
    """Two threads read and record at once."""
    failures: list[BaseException] = []

    def work(tensors: Tensors) -> None:
        try:
            for tensor in tensors:
                (tensor.detach().reshape(-1)[:3] == tensor.detach().reshape(-1)[:3]).cpu()
        except BaseException as error:  # reported by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=work, args=(ftm.tensors[k::2],)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Difference(f"in a thread: {_told(failures[0])}")


def _compare_all(cpu: Side, ftm: Side, inexact: set[int]) -> None:
    for k, (a, b) in enumerate(zip(cpu.tensors, ftm.tensors, strict=True)):
        for what, wanted, found in _parts(a, b):
            try:
                _compare(
                    wanted.detach(),
                    found.detach().cpu(),
                    _storage(wanted) in inexact or what == "gradient",
                )
            except FAILURES as error:
                raise Difference(f"tensor {k} {what}: {_told(error)}") from None
            except Difference as found_:
                raise Difference(f"tensor {k} {what}, {_form(a)}: {found_}") from None
        if a.numel() > 1 and (_strides(a), a.storage_offset()) != (_strides(b), b.storage_offset()):
            raise Difference(f"tensor {k}: CPU: {_form(a)}; ftm: {_form(b)}")


def _strides(t: torch.Tensor) -> list[int]:
    """But for dimensions of one element: that stride leads nowhere."""
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size != 1]


def _parts(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    yield "value", a, b
    leaf, other = _is_leaf(a), _is_leaf(b)
    if leaf != other:
        raise Difference(f"the CPU's is a leaf: {leaf}; ftm's: {other}")
    if leaf is True and (a.grad is None) != (b.grad is None):
        raise Difference("a gradient on one side only")
    if leaf is True and a.grad is not None and b.grad is not None:
        yield "gradient", a.grad, b.grad


def _is_leaf(t: torch.Tensor) -> bool | str:
    """Or what autograd says where a view must not be asked for its history."""
    try:
        return t.is_leaf
    except RuntimeError as error:
        return str(error)


def _compare(a: torch.Tensor, b: torch.Tensor, inexact: bool) -> None:
    if a.shape != b.shape or a.dtype != b.dtype:
        raise Difference(f"CPU: {_form(a)}; ftm: {_form(b)}")
    if a.dtype.is_floating_point and inexact:
        limit = TOLERANCE[a.dtype]
        a64, b64 = a.double(), b.double()
        small = torch.isfinite(a64) & (a64.abs() < (1e3 if a.element_size() == 2 else 1e15))
        scale = a64[small].abs().max().item() if small.any() else 1.0
        wrong = small & ~((a64 - b64).abs() <= limit * max(1.0, scale))
        if bool(wrong.any()):
            raise Difference(
                f"{a64[wrong][:4].tolist()} is {b64[wrong][:4].tolist()}, scale {scale}"
            )
    elif inexact:
        return
    elif not torch.equal(
        torch.nan_to_num(a) if a.dtype.is_floating_point else a,
        torch.nan_to_num(b) if b.dtype.is_floating_point else b,
    ):
        wrong = a != b
        raise Difference(f"{a[wrong][:4].tolist()} is {b[wrong][:4].tolist()}")


def _form(t: torch.Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)} strides {list(t.stride())} offset {t.storage_offset()} grad {t.requires_grad}"


def _told(error: BaseException | None) -> str:
    return (
        "no error"
        if error is None
        else f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
    )
