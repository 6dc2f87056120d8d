"""torch_xla.test.test_utils: progress lines and summaries of torch_xla's examples."""

from __future__ import annotations

import functools
import multiprocessing
import time
import unittest
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import torch

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.debug import metrics, metrics_compare_utils

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = [
    "close_summary_writer",
    "get_summary_writer",
    "mp_test",
    "now",
    "print_test_update",
    "print_training_update",
    "write_to_summary",
]


def mp_test(func: Callable[..., object]) -> Callable[..., object]:
    """Run a `unittest.TestCase` method in a new process, and return its exit code (decorator)."""

    @functools.wraps(func)
    def run_in_process(*args: object, **kwargs: object) -> int | None:
        process = multiprocessing.Process(target=func, args=args, kwargs=kwargs)
        process.start()
        process.join()
        if args and isinstance(args[0], unittest.TestCase):
            args[0].assertEqual(process.exitcode, 0)
        return process.exitcode

    return run_in_process


# --- TensorBoard


def get_summary_writer(logdir: str | None) -> SummaryWriter | None:
    """Return a SummaryWriter of tensorboardX or PyTorch for `logdir`; None if that is empty."""
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
    summary_writer: SummaryWriter | None,
    global_step: int | None = None,
    dict_to_write: dict[str, float] = {},  # noqa: B006
    write_xla_metrics: bool = False,
) -> None:
    """Write numbers to a SummaryWriter.

    Args:
        summary_writer: The writer; None does nothing.
        global_step: The step.
        dict_to_write: Names and numbers.
        write_xla_metrics: Also write the metrics.
    """
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


def close_summary_writer(summary_writer: SummaryWriter | None) -> None:
    """Flush and close a SummaryWriter; None does nothing."""
    if summary_writer is not None:
        summary_writer.flush()
        summary_writer.close()


# --- progress lines


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
    """Print a line about a training step, and write its rates to a SummaryWriter.

    Args:
        device: The device.
        step: Number of the step.
        loss: The loss.
        rate: Current examples per second.
        global_rate: Examples per second since the start.
        epoch: Number of the epoch.
        summary_writer: The writer, or None.
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
