"""torch.distributed for tensors on ftm: the process group ``ftm`` exchanges copies on the host, by
gloo.

Each process has a machine of its own, and there is no wire between machines but the host's. A
collective therefore reads its tensors (which runs what is pending, as one program), exchanges them
there, and writes the results back. Tensors on the CPU are taken as well, so one group serves both.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["HostProcessGroup", "create", "register"]


def register(name: str, device: str) -> None:
    """Make `name` a backend of `torch.distributed` for tensors on `device` and on the CPU."""
    dist.Backend.register_backend(name, create, devices=[device])


def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> HostProcessGroup:
    """Return the process group of one process; called by `torch.distributed.init_process_group`."""
    return HostProcessGroup(store, rank, size, timeout)


class HostProcessGroup(dist.ProcessGroup):
    """A process group whose tensors may lie on ftm; collectives are over when the call returns.

    Args:
        prefix_store: where the processes find each other.
        rank: of this process.
        size: number of processes.
        timeout: after which a collective that some process did not join fails.
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
        """End gloo's threads, once they have done what they were given; after it a collective is a
        RuntimeError."""
        self._running = None

    def getBackendName(self) -> str:  # noqa: N802  (PyTorch's name)
        """As `torch.distributed.get_backend` shows it."""
        return "ftm"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:
        """The name that `torch.distributed` gave the group."""
        return self._name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_desc(self) -> str:
        """The description that the user gave the group."""
        return self._description

    # --- results in the tensors that came in
    # ---------------------------------------------------------------

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Each tensor becomes its reduction over the processes."""
        opts = opts or dist.AllreduceOptions()
        return self._reduce(tensors, opts, lambda host: self._gloo.allreduce(host, opts))

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """As `allreduce`, of many tensors."""
        plain = dist.AllreduceOptions()
        if opts is not None:
            plain.reduceOp = opts.reduceOp
        for tensor in tensors:
            self.allreduce([tensor], plain)
        return _finished(tensors)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Return the tensors of rank `opts.rootRank` become the reduction over the processes."""
        return self._reduce(
            tensors, opts, lambda host: self._gloo.reduce(host, opts), opts.rootRank == self.rank()
        )

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Each tensor becomes that of rank `opts.rootRank`."""
        host = [_to_host(tensor) for tensor in tensors]
        self._gloo.broadcast(host, opts).wait()
        if opts.rootRank != self.rank():
            _back(tensors, host)
        return _finished(tensors)

    # --- results in tensors of their own
    # -------------------------------------------------------------------

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """``outputs[i][r]`` becomes ``inputs[i]`` of rank r."""
        for into, tensor in zip(outputs, inputs, strict=True):
            host = [_blank(output) for output in into]
            self._gloo.allgather([host], [_to_host(tensor)]).wait()
            _back(into, host)
        return _finished([tensor for into in outputs for tensor in into])

    allgather_coalesced = allgather

    def _allgather_base(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        host = _blank(output)
        self._gloo.allgather(
            [list(_parts(host, self.size(), tensor.shape))], [_to_host(tensor)]
        ).wait()
        _back([output], [host])
        return _finished([output])

    def allgather_into_tensor_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Each output becomes the inputs of all ranks, one behind the other."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._allgather_base(output, tensor)
        return _finished(outputs)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> dist.Work:
        """``outputs[i]`` becomes the reduction of ``inputs[i][rank]`` over the processes."""
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
        """As `reduce_scatter`, each input the concatenation of its parts."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._reduce_scatter_base(output, tensor, opts)
        return _finished(outputs)

    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> dist.Work:
        """On rank `opts.rootRank`, ``outputs[0][r]`` becomes ``inputs[0]`` of rank r."""
        host = [[_blank(output) for output in into] for into in outputs]
        self._gloo.gather(host, [_to_host(tensor) for tensor in inputs], opts).wait()
        for into, arrived in zip(outputs, host, strict=True):
            _back(into, arrived)
        return _finished([tensor for into in outputs for tensor in into])

    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> dist.Work:
        """``outputs[0]`` becomes ``inputs[0][rank]`` of rank `opts.rootRank`."""
        host = [_blank(output) for output in outputs]
        self._gloo.scatter(
            host, [[_to_host(tensor) for tensor in parts] for parts in inputs], opts
        ).wait()
        _back(outputs, host)
        return _finished(outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> dist.Work:
        """Rank r gets the r-th part of each process's tensor, along dim 0."""
        host = _blank(output)
        self._gloo.alltoall_base(
            host, _to_host(tensor), output_split_sizes, input_split_sizes
        ).wait()
        _back([output], [host])
        return _finished([output])

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """``outputs[r]`` becomes ``inputs[rank]`` of rank r."""
        sent, received = (
            [_to_host(tensor).reshape(-1) for tensor in inputs],
            [_blank(tensor) for tensor in outputs],
        )
        flat = torch.cat([tensor.reshape(-1) for tensor in received])
        sizes = [tensor.numel() for tensor in outputs]
        self._gloo.alltoall_base(
            flat, torch.cat(sent), sizes, [tensor.numel() for tensor in inputs]
        ).wait()
        arrived = [
            part.reshape(output.shape)
            for part, output in zip(flat.split(sizes), outputs, strict=True)
        ]
        _back(outputs, arrived)
        return _finished(outputs)

    # PyTorch calls some by one name, some by the other.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # --- between two processes
    # -----------------------------------------------------------------------------

    def send(self, tensors: list[torch.Tensor], destination: int, tag: int) -> dist.Work:
        """Send a copy; the work is over when it was taken."""
        host = [_to_host(tensor) for tensor in tensors]
        return _Transfer(self._gloo.send(host, destination, tag), host, host)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> dist.Work:
        """Receive from one process; the tensors hold the values once the work has been waited
        for."""
        host = [_blank(tensor) for tensor in tensors]
        return _Transfer(self._gloo.recv(host, source, tag), tensors, host)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> dist.Work:
        """Receive from whichever process sends first."""
        host = [_blank(tensor) for tensor in tensors]
        return _Transfer(self._gloo.recv_anysource(host, tag), tensors, host)

    def barrier(self, opts: Any = None) -> dist.Work:
        """Wait until all processes are here, with everything that they have recorded run."""
        from ftm_lazy import sync

        sync(wait=True)
        self._gloo.barrier().wait()
        return _finished([])

    # --- the work
    # ------------------------------------------------------------------------------------------

    def _reduce(
        self,
        tensors: list[torch.Tensor],
        opts: Any,
        exchange: Callable[[list[torch.Tensor]], Any],
        takes: bool = True,
    ) -> dist.Work:
        """Reduce host copies by `exchange`; an average, which gloo does not know, is a sum that is
        divided."""
        average = opts.reduceOp == dist.ReduceOp.AVG
        if average:
            opts.reduceOp = dist.ReduceOp.SUM
        host = [_to_host(tensor) for tensor in tensors]
        exchange(host).wait()
        if takes:
            _back(tensors, [tensor.div_(self.size()) for tensor in host] if average else host)
        return _finished(tensors)

    def _reduce_scatter(self, output: torch.Tensor, parts: torch.Tensor, opts: Any) -> None:
        """gloo has no reduction that scatters: all parts are reduced, and the own one is kept."""
        plain = dist.AllreduceOptions()
        if opts is not None:
            plain.reduceOp = opts.reduceOp
        self.allreduce([parts], plain)
        _back([output], [parts[self.rank()].reshape(output.shape)])


_groups: weakref.WeakSet[HostProcessGroup] = weakref.WeakSet()


@atexit.register
def _end_threads() -> None:
    """Join gloo's threads while the interpreter is whole.

    A thread of gloo's tells that a collective is over, and then drops its tensors. Python knows
    these, so dropping one takes the interpreter's lock; a thread that asks for it when the
    interpreter is already being taken down is ended where it stands, inside a destructor, which
    ends the process by SIGABRT.
    """
    for group in list(_groups):
        group.shutdown()


class _Transfer(dist.Work):
    """What is under way between two processes; `wait` puts what arrived in `host` where it
    belongs."""

    def __init__(
        self, work: dist.Work, tensors: list[torch.Tensor], host: list[torch.Tensor]
    ) -> None:
        super().__init__()
        self._work, self._tensors, self._host = work, tensors, host

    def wait(self, timeout: timedelta | None = None) -> bool:
        done = self._work.wait() if timeout is None else self._work.wait(timeout)
        if self._tensors is not self._host:
            _back(self._tensors, self._host)
        self._tensors = self._host
        return done

    def is_completed(self) -> bool:
        return self._work.is_completed()


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy on the CPU, of one's own."""
    value = tensor.detach()
    return value.contiguous().clone() if value.device.type == "cpu" else value.cpu().contiguous()


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def _back(tensors: list[torch.Tensor], host: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, host, strict=True):
            tensor.copy_(value)


def _parts(whole: torch.Tensor, count: int, shape: torch.Size) -> tuple[torch.Tensor, ...]:
    """`whole` as `count` tensors of `shape` that share its storage."""
    return whole.view(-1).view(count, *shape).unbind(0)


def _finished(result: list[torch.Tensor]) -> dist.Work:
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)
