"""Small definitions that a migrated program gets, where it uses what PyTorch has no single call for."""

from __future__ import annotations

__all__ = ["HELPERS", "needed"]

HELPERS: dict[str, tuple[tuple[str, ...], str]] = {
    "process_rank": (
        (),
        '''
def process_rank():
    """The number of this process among those that work together."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
''',
    ),
    "process_count": (
        (),
        '''
def process_count():
    """The number of processes that work together."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
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
def save_once(data, file):
    """`torch.save` in the first process only, in a file that loads on any device."""
    if process_rank() == 0:
        moved = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), data)
        torch.save(moved, file)
''',
    ),
    "gather_all": (
        ("process_count",),
        '''
def gather_all(data):
    """The data of all processes, by rank; waits for them."""
    everywhere = [data]
    if process_count() > 1:
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
