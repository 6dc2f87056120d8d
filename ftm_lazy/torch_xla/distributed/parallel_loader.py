"""torch_xla.distributed.parallel_loader, commonly imported as ``pl``: batches that are on the
device when they are needed.

One thread reads the DataLoader, others move batches; a batch that is asked for ends the step before
it (`torch_xla.sync`). The threads start once reading takes longer than handing over: a small batch
is read and moved where it is asked for.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch

from ftm_lazy.torch_xla import _steps
from ftm_lazy.torch_xla.core._data import send_cpu_data_to_device
from ftm_lazy.torch_xla.debug import profiler
from ftm_lazy.torch_xla.utils import keyd_queue

__all__ = ["MpDeviceLoader", "ParallelLoader", "PerDeviceLoader", "PerDeviceQueue"]


_GRACE = 5.0
"""Seconds that the end of the process waits for a thread, which may be in a data set that never
answers."""


_WORTH = 1e-3
"""Seconds that a batch takes to read and move, in the mean, from which on threads do it: each that
they hand over costs the program's own thread a third of that, mostly in turns at the interpreter's
lock."""


def _named(scope: str) -> AbstractContextManager[None]:
    """Return a name in the profile, if there is one under way: each name costs as much as to move a small
    tensor."""
    return profiler.Trace(scope) if torch.autograd.profiler._is_profiler_enabled else nullcontext()


class PerDeviceQueue:
    """What waits for a device: batches on the CPU and batches on the device.

    Args:
        device: whose they are.
        loader_prefetch_size: batches on the CPU.
        device_prefetch_size: batches on the device.
    """

    def __init__(
        self, device: torch.device, loader_prefetch_size: int, device_prefetch_size: int
    ) -> None:
        self.device = device
        self.cpu_loader_queue = keyd_queue.Queue(maxsize=loader_prefetch_size)
        self.queue = keyd_queue.Queue(maxsize=device_prefetch_size)
        self.close_queue_count = itertools.count()


class PerDeviceLoader:
    """Iterates over the batches of a device; each that is asked for ends the step before it.

    Args:
        loader: whose batches.
        device: of the loader's.
    """

    def __init__(self, loader: ParallelLoader, device: torch.device) -> None:
        self._loader, self._device = loader, device
        self._since = 0  # batches since the last end of a step

    def __iter__(self) -> PerDeviceLoader:
        return self

    def __len__(self) -> int:
        return self._loader.per_device_samples()

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        """Return the next batch; raises StopIteration at the end, or what the DataLoader raised."""
        if profiler.get_tracer_marked_step():  # a StepTrace has ended it
            profiler.set_tracer_marked_step(False)
            self._since += 1
        elif self._since + 1 >= self._loader.batches_per_execution:
            self._since = 0
            _steps.sync()
        else:
            self._since += 1
        item = self._loader.next_item(self._device)
        if item is None:
            self._loader.raise_failure()
            _steps.sync()
            raise StopIteration
        return item


class ParallelLoader:
    """Moves the batches of a DataLoader to devices, in the background once that is worth it.

    Args:
        cpu_loader: gives batches on the CPU. devices: the i-th batch goes to device ``i %
        len(devices)``. batchdim: accepted; the dimension of the batch does not matter here.
        batches_per_execution: how many batches are one step. loader_prefetch_size: batches that may
        wait on the CPU, for each device. device_prefetch_size: batches that may wait on the device.
        host_to_device_transfer_threads: how many threads move batches to a device; with several
        their order may change. input_sharding: accepted; each process has one device.
    """

    def __init__(
        self,
        cpu_loader: Iterable[Any],
        devices: Iterable[torch.device | str],
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8,
        host_to_device_transfer_threads: int = 1,
        input_sharding: Any = None,
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
        self._seconds = 0.0  # that a batch took to read and move, weighted towards the last ones
        if len(self._queues) > 1:
            self._start()

    def _start(self) -> None:
        """Start the threads."""
        self._threads = [threading.Thread(target=self._read, name="ftm loader", daemon=True)]
        for queue in self._queues.values():
            for _ in range(self._transfer_threads):
                arguments = (queue, self._transfer_threads)
                self._threads.append(
                    threading.Thread(
                        target=self._move, args=arguments, name="ftm upload", daemon=True
                    )
                )
        _loaders.add(self)
        for thread in self._threads:
            thread.start()

    @property
    def batches_per_execution(self) -> int:
        """How many batches are one step."""
        return self._batches_per_execution

    def per_device_loader(self, device: torch.device | str) -> PerDeviceLoader:
        """Return the batches of `device`."""
        return PerDeviceLoader(self, torch.device(device))

    def per_device_samples(self) -> int:
        """Return the number of batches of each device."""
        return len(cast(Sized, self._cpu_loader)) // len(self._queues)

    def next_item(self, device: torch.device) -> Any:
        """Return the next batch of `device`; waits for it.  None at the end."""
        if not self._threads and self._seconds > _WORTH:
            self._start()
        return self._queues[device].queue.get() if self._threads else self._next_here(device)

    def _next_here(self, device: torch.device) -> Any:
        """Return the next batch, read and moved by the thread that asks for it."""
        begin = time.perf_counter()
        for batch in self._batches:
            if self._done:
                break
            moved = self._moved(batch, device)
            if self._read_any:  # the first of a DataLoader's takes what starting it takes
                self._seconds += (time.perf_counter() - begin - self._seconds) / 8
            self._read_any = True
            return moved
        return None

    def raise_failure(self) -> None:
        """Raise what the threads raised, if anything."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End the threads."""
        self._tell_end()
        for thread in self._threads:
            thread.join()

    def _tell_end(self) -> None:
        self._done = True
        for queue in self._queues.values():
            queue.queue.close()
            queue.cpu_loader_queue.close()

    def _read(self) -> None:
        """The thread that reads the DataLoader; an incomplete round over the devices is dropped."""
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
        except BaseException as error:  # noqa: BLE001  (raised where the batch is asked for)
            self._failure = error
        finally:
            for queue in queues:
                queue.cpu_loader_queue.close_write()

    def _read_batches(self) -> Iterator[Any]:
        batches = iter(self._cpu_loader)
        while True:
            with _named("cpu_loader.next"):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    def _move(self, queue: PerDeviceQueue, threads: int) -> None:
        """A thread that moves batches to a device."""
        try:
            while (batch := queue.cpu_loader_queue.get()) is not None and not self._done:
                queue.queue.put(self._moved(batch, queue.device))
        except BaseException as error:  # noqa: BLE001  (raised where the batch is asked for)
            self._failure = error
        finally:
            if next(queue.close_queue_count) == threads - 1:
                queue.queue.close_write()

    def _moved(self, batch: Any, device: torch.device) -> Any:
        with _named("cpu_data_to_xla_device"), torch.no_grad():
            return self.send_cpu_data_to_device([batch], device)[0]

    def send_cpu_data_to_device(self, batches: list[Any], device: torch.device) -> list[Any]:
        """Copies of `batches` on `device`."""
        return send_cpu_data_to_device(batches, device)


_loaders: weakref.WeakSet[ParallelLoader] = weakref.WeakSet()


@atexit.register
def _end_threads() -> None:
    """End the threads of loaders that the program has left before their last batch, while the
    interpreter is whole.

    One that comes out of an operation of PyTorch's when the interpreter is already being taken down
    is ended where it stands, inside a destructor, which ends the process by SIGABRT.
    """
    loaders, deadline = list(_loaders), time.monotonic() + _GRACE
    for loader in loaders:
        loader._tell_end()
    for loader in loaders:
        for thread in loader._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class MpDeviceLoader:
    """A DataLoader whose batches are on the device; what else is asked of it (``dataset``, ...),
    the DataLoader answers.

    Args:
        loader: gives batches on the CPU.
        device: where they go.
        kwargs: for `ParallelLoader`.
    """

    def __init__(self, loader: Iterable[Any], device: torch.device | str, **kwargs: Any) -> None:
        self._loader, self._device, self._arguments = loader, device, kwargs
        self._running: ParallelLoader | None = None

    def __iter__(self) -> PerDeviceLoader:
        if self._running is not None:
            self._running.close()
        self._running = ParallelLoader(self._loader, [self._device], **self._arguments)
        return self._running.per_device_loader(self._device)

    def __len__(self) -> int:
        return len(cast(Sized, self._loader))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)
