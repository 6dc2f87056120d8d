"""Small definitions that a migrated program gets, where it uses what PyTorch has no single call
for."""

from __future__ import annotations

from ftm_lazy.migrate.rename_rules import DEVICE

__all__ = ["HELPERS", "needed"]

HELPERS: dict[str, tuple[tuple[str, ...], str]] = {
    "process_rank": (
        (),
        '''
def process_rank():
    """The number of this process among those that work together, as torchrun counts them."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else int(os.environ.get("RANK", 0))
''',
    ),
    "process_count": (
        (),
        '''
def process_count():
    """The number of processes that work together."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else int(os.environ.get("WORLD_SIZE", 1))
''',
    ),
    "join_processes": (
        ("process_count",),
        f'''
def join_processes():
    """Whether there are several processes; they find each other at the first call."""
    if process_count() > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("{DEVICE}")
    return process_count() > 1
''',
    ),
    "enter_process": (
        (),
        '''
def enter_process(rank, function, args, count, port):
    """The main function of a process of `spawn_processes`: says who it is, as torchrun does."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    os.environ.setdefault("FTM_CORES", str(max(1, os.cpu_count() // count)))
    function(rank, *args)
''',
    ),
    "spawn_processes": (
        ("enter_process",),
        '''
def spawn_processes(function, args=(), count=1):
    """Calls `function(rank, *args)` in `count` processes that work together; one of them is this one."""
    if count == 1:
        return function(0, *args)
    port = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False).port  # a free one
    return torch.multiprocessing.spawn(enter_process, (function, args, count, port), count)
''',
    ),
    "reduce_in_place": (
        ("process_count", "join_processes"),
        '''
def reduce_in_place(operation, tensors, scale):
    """Reduces `tensors` over the processes ("sum", "mul", "min", "max", "and", "or"); those of a dtype travel together."""
    if not join_processes():
        return
    names = {"mul": "PRODUCT", "and": "BAND", "or": "BOR"}
    with torch.no_grad():
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            torch.distributed.all_reduce(flat, getattr(torch.distributed.ReduceOp, names.get(operation, operation.upper())))
            parts = (flat if scale == 1 else (flat * scale).to(dtype)).split([tensor.numel() for tensor in same])
            for tensor, part in zip(same, parts):
                tensor.copy_(part.view_as(tensor))
''',
    ),
    "reduce_over_processes": (
        ("reduce_in_place",),
        '''
def reduce_over_processes(operation, data, scale=1.0):
    """A new tensor, the reduction of one; or a list of tensors, reduced in place."""
    result = data.clone() if isinstance(data, torch.Tensor) else data
    reduce_in_place(operation, [result] if result is not data else data, scale)
    return result
''',
    ),
    "step_together": (
        ("reduce_in_place",),
        '''
def step_together(optimizer, **arguments):
    """`optimizer.step`, with the gradients' means over the processes."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    reduce_in_place("sum", gradients, 1 / process_count())
    return optimizer.step(**arguments)
''',
    ),
    "print_once": (
        ("process_rank",),
        '''
def print_once(*values, fd=None, local=False, flush=False):
    """`print` in the first process only."""
    if process_rank() == 0:
        print(*values, file=fd, flush=flush)
''',
    ),
    "save_once": (
        ("process_rank",),
        '''
def save_once(data, file_or_path, master_only=True, global_master=False):
    """`torch.save`, in the first process only unless said otherwise, in a file that loads on any device."""
    if not master_only or process_rank() == 0:
        local = lambda tensor: tensor.to_local() if hasattr(tensor, "to_local") else tensor
        moved = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: local(tensor).cpu(), data)
        torch.save(moved, file_or_path)
''',
    ),
    "shard_parameters": (
        (),
        f'''
def shard_parameters(module, policy=None, dtype=None, reduce_dtype=None, reshard=None):
    """`module` with its parameters divided among the processes; submodules that `policy` picks are together for themselves."""
    if not torch.distributed.is_initialized():
        alone = dict(store=torch.distributed.HashStore(), rank=0, world_size=1)
        torch.distributed.init_process_group("{DEVICE}", **({{}} if "RANK" in os.environ else alone))
    precision = torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduce_dtype)

    def divide(part, picked):
        count, divided = sum(parameter.numel() for parameter in part.parameters()), 0
        if policy is not None and policy(part, True, count):
            divided = sum(divide(child, False) for child in part.children())
            picked = picked or policy(part, False, count - divided)
        if picked:
            torch.distributed.fsdp.fully_shard(part, reshard_after_forward=reshard, mp_policy=precision)
        return count if picked else divided

    for buffer in module.to("{DEVICE}").buffers():
        if dtype is not None and buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)
    divide(module, True)
    return module
''',
    ),
    "gather_all": (
        ("process_count", "join_processes"),
        '''
def gather_all(data):
    """The data of all processes, by rank; waits for them."""
    everywhere = [data]
    if join_processes():
        everywhere = [None] * process_count()
        torch.distributed.all_gather_object(everywhere, data)
    return everywhere
''',
    ),
    "DeviceLoader": (
        (),
        '''
class DeviceLoader:
    """The batches of `loader`, on `device`."""

    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        move = lambda tensor: tensor.to(self.device, non_blocking=True)
        return (torch.utils._pytree.tree_map_only(torch.Tensor, move, batch) for batch in self.loader)
''',
    ),
}
"""Name to the helpers that it uses, and its text."""


def needed(names: set[str]) -> list[str]:
    """`names` and what they use, each behind what it uses."""
    order: list[str] = []

    def add(name: str) -> None:
        for other in HELPERS[name][0]:
            add(other)
        if name not in order:
            order.append(name)

    for name in HELPERS:
        if name in names:
            add(name)
    return order
