"""torch.distributed's process group ``ftm``: gloo on copies in host memory.

Each process has its own machine, and machines are connected through their hosts only. A collective
copies its tensors to the host (which runs all pending operations as one program), calls gloo, and
copies the results back. CPU tensors are accepted, too, so one group serves both devices.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ftm_lazy.torch_version import private_names

__all__ = ["HostProcessGroup", "create", "register"]


def register(name: str, device: str) -> None:
    """Register a backend of `torch.distributed`.

    Args:
        name: The backend's name.
        device: The device type whose tensors it handles.
    """
    dist.Backend.register_backend(name, create, devices=[device])


def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> HostProcessGroup:
    """Create the process group; called by `torch.distributed.init_process_group`.

    Args:
        store: Store through which the processes find each other.
        rank: Rank of this process.
        size: Number of processes.
        timeout: Time after which a collective fails that a process has not joined.
    """
    return HostProcessGroup(store, rank, size, timeout)


class HostProcessGroup(dist.ProcessGroup):
    """Process group for tensors on ftm and on the CPU.

    Collectives are synchronous: they are finished when the call returns. Each method returns a
    `torch.distributed.Work`; arguments, shapes and dtypes are those of `dist.ProcessGroup`.

    Args:
        prefix_store: Store through which the processes find each other.
        rank: Rank of this process.
        size: Number of processes.
        timeout: Time after which a collective fails that a process has not joined.
    """

    def __init__(self, prefix_store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._running: dist.ProcessGroupGloo | None = dist.ProcessGroupGloo(
            prefix_store, rank, size, timeout
        )
        self._name = ""
        self._description = ""
        _groups.add(self)

    @property
    def _gloo(self) -> dist.ProcessGroupGloo:
        if self._running is None:
            raise RuntimeError(f"the process group {self._name!r} has been shut down")
        return self._running

    def shutdown(self) -> None:
        """End gloo's threads after their current work; later collectives raise RuntimeError."""
        self._running = None

    def getBackendName(self) -> str:  # noqa: N802  (PyTorch's name)
        """Return the name that `torch.distributed.get_backend` shows."""
        return "ftm"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:
        """Name of the group, set by `torch.distributed`."""
        return self._name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_desc(self) -> str:
        """Description of the group, set by the user."""
        return self._description

    # --- in-place collectives

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Replace each tensor by its reduction over all ranks."""
        opts = opts or dist.AllreduceOptions()
        return self._reduce(tensors, opts, lambda host: self._gloo.allreduce(host, opts))

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Call `allreduce` for several tensors."""
        plain = dist.AllreduceOptions()
        if opts is not None:
            plain.reduceOp = opts.reduceOp
        for tensor in tensors:
            self.allreduce([tensor], plain)
        return _finished(tensors)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Replace the tensors of rank `opts.rootRank` by the reduction over all ranks."""
        return self._reduce(
            tensors, opts, lambda host: self._gloo.reduce(host, opts), opts.rootRank == self.rank()
        )

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Replace each tensor by that of rank `opts.rootRank`."""
        host = [_to_host(tensor) for tensor in tensors]
        self._gloo.broadcast(host, opts).wait()
        if opts.rootRank != self.rank():
            _copy_back(tensors, host)
        return _finished(tensors)

    # --- collectives with output tensors

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Set ``outputs[i][r]`` to ``inputs[i]`` of rank r."""
        for gathered, tensor in zip(outputs, inputs, strict=True):
            host = [_empty_on_host(output) for output in gathered]
            self._gloo.allgather([host], [_to_host(tensor)]).wait()
            _copy_back(gathered, host)
        return _finished([tensor for gathered in outputs for tensor in gathered])

    allgather_coalesced = allgather

    def _allgather_base(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        host = _empty_on_host(output)
        self._gloo.allgather(
            [list(_parts(host, self.size(), tensor.shape))], [_to_host(tensor)]
        ).wait()
        _copy_back([output], [host])
        return _finished([output])

    def allgather_into_tensor_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Set each output to the concatenation of all ranks' inputs."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._allgather_base(output, tensor)
        return _finished(outputs)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> dist.Work:
        """Set ``outputs[i]`` to the reduction of ``inputs[i][rank]`` over all ranks."""
        for output, parts in zip(outputs, inputs, strict=True):
            self._reduce_scatter(output, torch.stack([_to_host(part) for part in parts]), opts)
        return _finished(outputs)

    def _reduce_scatter_base(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        self._reduce_scatter(output, _to_host(tensor).reshape(self.size(), *output.shape), opts)
        return _finished([output])

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Call `reduce_scatter` with inputs that are concatenations of their parts."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._reduce_scatter_base(output, tensor, opts)
        return _finished(outputs)

    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> dist.Work:
        """On rank `opts.rootRank`, set ``outputs[0][r]`` to ``inputs[0]`` of rank r."""
        host = [[_empty_on_host(output) for output in gathered] for gathered in outputs]
        self._gloo.gather(host, [_to_host(tensor) for tensor in inputs], opts).wait()
        for gathered, received in zip(outputs, host, strict=True):
            _copy_back(gathered, received)
        return _finished([tensor for gathered in outputs for tensor in gathered])

    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> dist.Work:
        """Set ``outputs[0]`` to ``inputs[0][rank]`` of rank `opts.rootRank`."""
        host = [_empty_on_host(output) for output in outputs]
        self._gloo.scatter(
            host, [[_to_host(tensor) for tensor in parts] for parts in inputs], opts
        ).wait()
        _copy_back(outputs, host)
        return _finished(outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> dist.Work:
        """Send the r-th part of `tensor`, along dim 0, to rank r."""
        host = _empty_on_host(output)
        self._gloo.alltoall_base(
            host, _to_host(tensor), output_split_sizes, input_split_sizes
        ).wait()
        _copy_back([output], [host])
        return _finished([output])

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Set ``outputs[r]`` to ``inputs[rank]`` of rank r."""
        sent = torch.cat([_to_host(tensor).reshape(-1) for tensor in inputs])
        received = torch.cat([_empty_on_host(tensor).reshape(-1) for tensor in outputs])
        sizes = [tensor.numel() for tensor in outputs]
        self._gloo.alltoall_base(
            received, sent, sizes, [tensor.numel() for tensor in inputs]
        ).wait()
        parts = received.split(sizes)
        _copy_back(outputs, [part.reshape(o.shape) for part, o in zip(parts, outputs, strict=True)])
        return _finished(outputs)

    # PyTorch uses both names of these methods
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # --- point to point

    def send(self, tensors: list[torch.Tensor], destination: int, tag: int) -> dist.Work:
        """Send copies; the work is finished when the receiver has them."""
        host = [_to_host(tensor) for tensor in tensors]
        return _Transfer(self._gloo.send(host, destination, tag), host, host)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> dist.Work:
        """Receive from one rank; `wait` of the work sets the tensors."""
        host = [_empty_on_host(tensor) for tensor in tensors]
        return _Transfer(self._gloo.recv(host, source, tag), tensors, host)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> dist.Work:
        """Receive from the rank that sends first; `wait` of the work sets the tensors."""
        host = [_empty_on_host(tensor) for tensor in tensors]
        return _Transfer(self._gloo.recv_anysource(host, tag), tensors, host)

    def barrier(self, opts: Any = None) -> dist.Work:
        """Run all pending operations, then wait until all ranks have done so."""
        from ftm_lazy import sync

        sync(wait=True)
        self._gloo.barrier().wait()
        return _finished([])

    # --- implementation

    def _reduce(
        self,
        tensors: list[torch.Tensor],
        opts: Any,
        reduce: Callable[[list[torch.Tensor]], Any],
        is_receiver: bool = True,
    ) -> dist.Work:
        """Reduce host copies with `reduce`; gloo has no average, so it is a sum and a division."""
        average = opts.reduceOp == dist.ReduceOp.AVG
        if average:
            opts.reduceOp = dist.ReduceOp.SUM
        host = [_to_host(tensor) for tensor in tensors]
        reduce(host).wait()
        if is_receiver:
            _copy_back(tensors, [tensor.div_(self.size()) for tensor in host] if average else host)
        return _finished(tensors)

    def _reduce_scatter(self, output: torch.Tensor, parts: torch.Tensor, opts: Any) -> None:
        """Reduce all parts and keep this rank's: gloo has no reduce-scatter."""
        plain = dist.AllreduceOptions()
        if opts is not None:
            plain.reduceOp = opts.reduceOp
        self.allreduce([parts], plain)
        _copy_back([output], [parts[self.rank()].reshape(output.shape)])


_groups: weakref.WeakSet[HostProcessGroup] = weakref.WeakSet()


@atexit.register
def _end_threads() -> None:
    """Join gloo's threads before the interpreter shuts down.

    After a collective, gloo's thread drops its tensors. They have Python objects, so this takes the
    GIL. A thread that requests the GIL during shutdown is terminated within a destructor, which
    aborts the process (SIGABRT).
    """
    for group in list(_groups):
        group.shutdown()


class _Transfer(dist.Work):
    """A point-to-point transfer; `wait` copies received values from `host` to the tensors."""

    def __init__(
        self, work: dist.Work, tensors: list[torch.Tensor], host: list[torch.Tensor]
    ) -> None:
        super().__init__()
        self._work, self._tensors, self._host = work, tensors, host

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the transfer."""
        done = self._work.wait() if timeout is None else self._work.wait(timeout)
        if self._tensors is not self._host:
            _copy_back(self._tensors, self._host)
        self._tensors = self._host
        return done

    def is_completed(self) -> bool:
        """Return whether the transfer is finished."""
        return self._work.is_completed()


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy on the CPU."""
    value = tensor.detach()
    return value.contiguous().clone() if value.device.type == "cpu" else value.cpu().contiguous()


def _empty_on_host(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def _copy_back(tensors: list[torch.Tensor], host: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, host, strict=True):
            tensor.copy_(value)


def _parts(whole: torch.Tensor, count: int, shape: torch.Size) -> tuple[torch.Tensor, ...]:
    """Return `count` views of `shape` that `whole` consists of."""
    return whole.view(-1).view(count, *shape).unbind(0)


def _finished(result: list[torch.Tensor]) -> dist.Work:
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(result)
    return private_names.work_of_future(future)
