"""torch_xla.test.test_utils: lines of progress and summaries, as torch_xla's examples print
them."""

from __future__ import annotations

import functools
import multiprocessing
import time
import unittest
from collections.abc import Callable
from datetime import datetime
from typing import Any

import torch

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.debug import metrics, metrics_compare_utils

__all__ = [
    "close_summary_writer",
    "get_summary_writer",
    "mp_test",
    "now",
    "print_test_update",
    "print_training_update",
    "write_to_summary",
]


def mp_test(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: runs a `unittest.TestCase` method in a process of its own, and returns its exit
    code."""

    @functools.wraps(func)
    def alone(*args: object, **kwargs: object) -> int | None:
        process = multiprocessing.Process(target=func, args=args, kwargs=kwargs)
        process.start()
        process.join()
        if args and isinstance(args[0], unittest.TestCase):
            args[0].assertEqual(process.exitcode, 0)
        return process.exitcode

    return alone


# --- TensorBoard


def get_summary_writer(logdir: str | None) -> Any:
    """Return a SummaryWriter of tensorboardX, or PyTorch's, for `logdir`; None without one."""
    if not logdir:
        return None
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(log_dir=logdir)
    write_to_summary(writer, 0, {"TensorboardStartTimestamp": time.time()})
    return writer


def write_to_summary(
    summary_writer: Any,
    global_step: int | None = None,
    dict_to_write: dict[str, float] = {},  # noqa: B006
    write_xla_metrics: bool = False,
) -> None:
    """Write numbers, and with `write_xla_metrics` the metrics, to a SummaryWriter; nothing if it
    is None."""
    if summary_writer is None:
        return
    values = dict(dict_to_write)
    if write_xla_metrics:
        report = metrics_compare_utils.parse_metrics_report(metrics.metrics_report())
        values |= report
        values["aten_ops_sum"] = sum(
            value for name, value in report.items() if name.startswith("aten::")
        )
    for name, value in values.items():
        summary_writer.add_scalar(name, value, global_step)


def close_summary_writer(summary_writer: Any) -> None:
    """Flush and closes it; nothing if it is None."""
    if summary_writer is not None:
        summary_writer.flush()
        summary_writer.close()


# --- lines of progress


def now(format: str = "%H:%M:%S") -> str:
    """Return the time of day."""
    return datetime.now().strftime(format)


def _line(kind: str, device: torch.device | str, parts: list[str | None]) -> None:
    head = f"{kind} Device={device}/{_world.ordinal()}"
    print("|", " ".join([head, *(part for part in parts if part), f"Time={now()}"]), flush=True)


def print_training_update(
    device: torch.device | str,
    step: int,
    loss: float,
    rate: float,
    global_rate: float,
    epoch: int | None = None,
    summary_writer: object = None,
) -> None:
    """Print a line about a training step, and writes its rates to a SummaryWriter.

    Args:
        device: where it ran.
        step: its number.
        loss: of it.
        rate: examples a second by now.
        global_rate: examples a second since the start.
        epoch: its number.
        summary_writer: or None.
    """
    parts = [
        None if epoch is None else f"Epoch={epoch}",
        f"Step={step}",
        f"Loss={loss:.5f}",
        f"Rate={rate:.2f}",
        f"GlobalRate={global_rate:.2f}",
    ]
    _line("Training", device, parts)
    write_to_summary(
        summary_writer, None, {"examples/sec": rate, "average_examples/sec": global_rate}
    )


def print_test_update(
    device: torch.device | str,
    accuracy: float | None,
    epoch: int | None = None,
    step: int | None = None,
) -> None:
    """Print a line about an evaluation."""
    parts = [
        None if step is None else f"Step={step}",
        None if epoch is None else f"Epoch={epoch}",
        None if accuracy is None else f"Accuracy={accuracy:.2f}",
    ]
    _line("Test", device, parts)
