"""Helper functions inserted into a migrated program if PyTorch has no single equivalent call."""

from __future__ import annotations

from ftm_lazy.migrate.torch_xla_rewrites import DEVICE

HELPERS: dict[str, tuple[tuple[str, ...], str]] = {
    "process_rank": (
        (),
        '''
def process_rank():
    """Return the rank of this process, as torchrun sets it."""
    if torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", 0))
''',
    ),
    "process_count": (
        (),
        '''
def process_count():
    """Return the number of processes, as torchrun sets it."""
    if torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return int(os.environ.get("WORLD_SIZE", 1))
''',
    ),
    "join_processes": (
        ("process_count",),
        f'''
def join_processes():
    """Return whether there are several processes; the first call creates the process group."""
    if process_count() > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("{DEVICE}")
    return process_count() > 1
''',
    ),
    "enter_process": (
        (),
        '''
def enter_process(rank, function, args, count, port):
    """Main function of a process of `spawn_processes`: sets torchrun's environment variables."""
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count}
    variables |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in variables.items()})
    os.environ.setdefault("FTM_CORES", str(max(1, os.cpu_count() // count)))
    function(rank, *args)
''',
    ),
    "spawn_processes": (
        ("enter_process",),
        '''
def spawn_processes(function, args=(), count=1):
    """Call `function(rank, *args)` in `count` processes; a single one is this process."""
    if count == 1:
        return function(0, *args)
    # a temporary store on port 0 finds a free port
    port = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False).port
    return torch.multiprocessing.spawn(enter_process, (function, args, count, port), count)
''',
    ),
    "reduce_in_place": (
        ("process_count", "join_processes"),
        '''
def reduce_in_place(operation, tensors, scale):
    """Reduce tensors over the processes in place, with one message for each dtype.

    `operation` is "sum", "mul", "min", "max", "and" or "or".
    """
    if not join_processes():
        return
    names = {"mul": "PRODUCT", "and": "BAND", "or": "BOR"}
    reduce_op = getattr(torch.distributed.ReduceOp, names.get(operation, operation.upper()))
    with torch.no_grad():
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            torch.distributed.all_reduce(flat, reduce_op)
            flat = flat if scale == 1 else (flat * scale).to(dtype)
            for tensor, part in zip(same, flat.split([tensor.numel() for tensor in same])):
                tensor.copy_(part.view_as(tensor))
''',
    ),
    "reduce_over_processes": (
        ("reduce_in_place",),
        '''
def reduce_over_processes(operation, data, scale=1.0):
    """Return the reduction of a tensor, or reduce a list of tensors in place."""
    result = data.clone() if isinstance(data, torch.Tensor) else data
    reduce_in_place(operation, [result] if result is not data else data, scale)
    return result
''',
    ),
    "step_together": (
        ("reduce_in_place",),
        '''
def step_together(optimizer, **arguments):
    """Average the gradients over the processes, then call `optimizer.step`."""
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
    """Print in the first process only."""
    if process_rank() == 0:
        print(*values, file=fd, flush=flush)
''',
    ),
    "save_once": (
        ("process_rank",),
        '''
def save_once(data, file_or_path, master_only=True, global_master=False):
    """Save data with its tensors on the CPU; by default in the first process only."""
    def to_cpu(tensor):
        return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).cpu()

    if not master_only or process_rank() == 0:
        on_cpu = torch.utils._pytree.tree_map_only(torch.Tensor, to_cpu, data)
        torch.save(on_cpu, file_or_path)
''',
    ),
    "shard_parameters": (
        (),
        f'''
def shard_parameters(module, policy=None, dtype=None, reduce_dtype=None, reshard=None):
    """Shard the parameters of `module`; submodules that `policy` selects are sharded separately."""
    if not torch.distributed.is_initialized():
        alone = dict(store=torch.distributed.HashStore(), rank=0, world_size=1)
        options = {{}} if "RANK" in os.environ else alone
        torch.distributed.init_process_group("{DEVICE}", **options)
    precision = torch.distributed.fsdp.MixedPrecisionPolicy(dtype, reduce_dtype)
    fully_shard = torch.distributed.fsdp.fully_shard

    def shard(part, selected):
        count, sharded = sum(parameter.numel() for parameter in part.parameters()), 0
        if policy is not None and policy(part, True, count):
            sharded = sum(shard(child, False) for child in part.children())
            selected = selected or policy(part, False, count - sharded)
        if selected:
            fully_shard(part, reshard_after_forward=reshard, mp_policy=precision)
        return count if selected else sharded

    for buffer in module.to("{DEVICE}").buffers():
        if dtype is not None and buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)
    shard(module, True)
    return module
''',
    ),
    "gather_all": (
        ("process_count", "join_processes"),
        '''
def gather_all(data):
    """Return the data of all processes by rank, after waiting for them."""
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
    """Iterates over the batches of `loader`, copied to `device`."""

    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        def copy(tensor):
            return tensor.to(self.device, non_blocking=True)

        map_tensors = torch.utils._pytree.tree_map_only
        return (map_tensors(torch.Tensor, copy, batch) for batch in self.loader)
''',
    ),
}
"""Name of a helper to the names of helpers that it calls, and its source text."""


def needed(names: set[str]) -> list[str]:
    """Return helpers and those that they call, callees first."""
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
