"""torch_xla.distributed.parallel_loader, usually imported as ``pl``: prefetch to the device.

One thread reads the DataLoader, others copy batches to the device. Requesting a batch ends the
previous step (`torch_xla.sync`). The threads only start if batches take long enough to read and
copy; small batches are read and copied by the thread that requests them.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import TypedDict, Unpack, cast

import torch

from ftm_lazy.torch_xla import _steps
from ftm_lazy.torch_xla.core._data import send_cpu_data_to_device
from ftm_lazy.torch_xla.debug import profiler
from ftm_lazy.torch_xla.utils import keyd_queue

__all__ = ["MpDeviceLoader", "ParallelLoader", "PerDeviceLoader", "PerDeviceQueue"]


_GRACE = 5.0
"""Seconds that the process waits for a thread at exit; the data set may block forever."""


_THREAD_THRESHOLD = 1e-3
"""Mean seconds to read and copy a batch from which on threads are used.

Passing a batch between threads costs the main thread about a third of this, mostly for the GIL.
"""


def _named(scope: str) -> AbstractContextManager[None]:
    """Name a range if a profile is running; a range costs as much as copying a small tensor."""
    return profiler.Trace(scope) if torch.autograd.profiler._is_profiler_enabled else nullcontext()


class PerDeviceQueue:
    """Queues of a device: batches on the CPU, and batches on the device.

    Args:
        device: The device.
        loader_prefetch_size: Maximum number of batches on the CPU.
        device_prefetch_size: Maximum number of batches on the device.
    """

    def __init__(
        self, device: torch.device, loader_prefetch_size: int, device_prefetch_size: int
    ) -> None:
        self.device = device
        self.cpu_loader_queue: keyd_queue.Queue[object] = keyd_queue.Queue(
            maxsize=loader_prefetch_size
        )
        self.queue: keyd_queue.Queue[object] = keyd_queue.Queue(maxsize=device_prefetch_size)
        self.close_queue_count = itertools.count()


class PerDeviceLoader:
    """Iterator over the batches of a device; each request ends the previous step.

    Args:
        loader: The loader.
        device: One of its devices.
    """

    def __init__(self, loader: ParallelLoader, device: torch.device) -> None:
        self._loader, self._device = loader, device
        self._batches_in_step = 0  # since the last end of a step

    def __iter__(self) -> PerDeviceLoader:
        return self

    def __len__(self) -> int:
        return self._loader.per_device_samples()

    def __next__(self) -> object:
        return self.next()

    def next(self) -> object:
        """Return the next batch.

        Raises:
            StopIteration: There are no more batches.
            Exception: The DataLoader raised it.
        """
        if profiler.get_tracer_marked_step():  # a StepTrace has ended the step
            profiler.set_tracer_marked_step(False)
            self._batches_in_step += 1
        elif self._batches_in_step + 1 >= self._loader.batches_per_execution:
            self._batches_in_step = 0
            _steps.sync()
        else:
            self._batches_in_step += 1
        item = self._loader.next_item(self._device)
        if item is None:
            self._loader.raise_failure()
            _steps.sync()
            raise StopIteration
        return item


class LoaderOptions(TypedDict, total=False):
    """The optional arguments of `ParallelLoader`."""

    batchdim: int
    batches_per_execution: int
    loader_prefetch_size: int
    device_prefetch_size: int
    host_to_device_transfer_threads: int
    input_sharding: object


class ParallelLoader:
    """Copies the batches of a DataLoader to devices, on background threads if that pays.

    Args:
        cpu_loader: Yields batches on the CPU.
        devices: The devices; the i-th batch goes to device ``i % len(devices)``.
        batchdim: Accepted; has no effect.
        batches_per_execution: Number of batches in a step.
        loader_prefetch_size: Maximum number of queued batches on the CPU for each device.
        device_prefetch_size: Maximum number of queued batches on each device.
        host_to_device_transfer_threads: Number of copying threads per device. Several threads may
            change the order of batches.
        input_sharding: Accepted; each process has one device.
    """

    def __init__(
        self,
        cpu_loader: Iterable[object],
        devices: Iterable[torch.device | str],
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8,
        host_to_device_transfer_threads: int = 1,
        input_sharding: object = None,
    ) -> None:
        self._cpu_loader = cpu_loader
        self._batches = self._read_batches()
        self._batches_per_execution = batches_per_execution
        self._failure: BaseException | None = None
        self._done = False
        self._queues = {
            torch.device(device): PerDeviceQueue(
                torch.device(device), loader_prefetch_size, device_prefetch_size
            )
            for device in devices
        }
        self._transfer_threads = host_to_device_transfer_threads
        self._threads: list[threading.Thread] = []
        self._read_any = False
        self._seconds = 0.0  # moving average of the time to read and copy a batch
        if len(self._queues) > 1:
            self._start()

    def _start(self) -> None:
        """Start the background threads."""
        self._threads = [threading.Thread(target=self._read, name="ftm loader", daemon=True)]
        for queue in self._queues.values():
            for _ in range(self._transfer_threads):
                arguments = (queue, self._transfer_threads)
                self._threads.append(
                    threading.Thread(
                        target=self._upload, args=arguments, name="ftm upload", daemon=True
                    )
                )
        _loaders.add(self)
        for thread in self._threads:
            thread.start()

    @property
    def batches_per_execution(self) -> int:
        """Number of batches in a step."""
        return self._batches_per_execution

    def per_device_loader(self, device: torch.device | str) -> PerDeviceLoader:
        """Return the iterator over the batches of `device`."""
        return PerDeviceLoader(self, torch.device(device))

    def per_device_samples(self) -> int:
        """Return the number of batches of each device."""
        return len(cast(Sized, self._cpu_loader)) // len(self._queues)

    def next_item(self, device: torch.device) -> object:
        """Wait for the next batch of `device` and return it; None at the end."""
        if not self._threads and self._seconds > _THREAD_THRESHOLD:
            self._start()
        return self._queues[device].queue.get() if self._threads else self._next_here(device)

    def _next_here(self, device: torch.device) -> object:
        """Read and copy the next batch on this thread."""
        begin = time.perf_counter()
        for batch in self._batches:
            if self._done:
                break
            copied = self._copy(batch, device)
            if self._read_any:  # the first batch's time includes the DataLoader's start
                self._seconds += (time.perf_counter() - begin - self._seconds) / 8
            self._read_any = True
            return copied
        return None

    def raise_failure(self) -> None:
        """Raise the exception of a background thread, if there is one."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End the background threads."""
        self._request_end()
        for thread in self._threads:
            thread.join()

    def _request_end(self) -> None:
        self._done = True
        for queue in self._queues.values():
            queue.queue.close()
            queue.cpu_loader_queue.close()

    def _read(self) -> None:
        """Read the DataLoader (thread); an incomplete round over the devices is dropped."""
        queues, round_ = list(self._queues.values()), []
        try:
            for batch in self._batches:
                round_.append(batch)
                if len(round_) == len(queues):
                    for queue, each in zip(queues, round_, strict=True):
                        queue.cpu_loader_queue.put(each)
                    round_ = []
                if self._done:
                    break
        except BaseException as error:  # noqa: BLE001  (raised at the next request)
            self._failure = error
        finally:
            for queue in queues:
                queue.cpu_loader_queue.close_write()

    def _read_batches(self) -> Iterator[object]:
        batches = iter(self._cpu_loader)
        while True:
            with _named("cpu_loader.next"):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    def _upload(self, queue: PerDeviceQueue, threads: int) -> None:
        """Copy batches to a device (thread)."""
        try:
            while (batch := queue.cpu_loader_queue.get()) is not None and not self._done:
                queue.queue.put(self._copy(batch, queue.device))
        except BaseException as error:  # noqa: BLE001  (raised at the next request)
            self._failure = error
        finally:
            if next(queue.close_queue_count) == threads - 1:
                queue.queue.close_write()

    def _copy(self, batch: object, device: torch.device) -> object:
        with _named("cpu_data_to_xla_device"), torch.no_grad():
            return self.send_cpu_data_to_device([batch], device)[0]

    def send_cpu_data_to_device(self, batches: list[object], device: torch.device) -> list[object]:
        """Return copies of `batches` on `device`."""
        return send_cpu_data_to_device(batches, device)


_loaders: weakref.WeakSet[ParallelLoader] = weakref.WeakSet()


@atexit.register
def _end_threads() -> None:
    """End the threads of unfinished loaders before the interpreter shuts down.

    A thread that returns from a PyTorch operation during shutdown is terminated within a
    destructor, which aborts the process (SIGABRT).
    """
    loaders, deadline = list(_loaders), time.monotonic() + _GRACE
    for loader in loaders:
        loader._request_end()
    for loader in loaders:
        for thread in loader._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class MpDeviceLoader:
    """A DataLoader with batches on the device; other attributes are those of the DataLoader.

    Args:
        loader: Yields batches on the CPU.
        device: The device.
        **kwargs: Arguments of `ParallelLoader`.
    """

    def __init__(
        self,
        loader: Iterable[object],
        device: torch.device | str,
        **kwargs: Unpack[LoaderOptions],
    ) -> None:
        self._loader, self._device, self._arguments = loader, device, kwargs
        self._running: ParallelLoader | None = None

    def __iter__(self) -> PerDeviceLoader:
        if self._running is not None:
            self._running.close()
        self._running = ParallelLoader(self._loader, [self._device], **self._arguments)
        return self._running.per_device_loader(self._device)

    def __len__(self) -> int:
        return len(cast(Sized, self._loader))

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)
