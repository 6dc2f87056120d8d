"""``ftm-migrate`` rewrites `XlaFullyShardedDataParallel` as `fully_shard`, or reports why not."""

from __future__ import annotations

import json
import re

import pytest

from ftm_lazy.migrate import migrate

IMPORTS = (
    "import torch\nfrom torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP\n"
)

CALLS = [
    ("m = FSDP(m)\n", "m = shard_parameters(m)\n"),
    (
        "m = FSDP(net(), compute_dtype=torch.bfloat16)\n",
        "m = shard_parameters(net(), dtype=torch.bfloat16)\n",
    ),
    (
        "m = FSDP(m, fp32_reduce_scatter=True)\n",
        "m = shard_parameters(m, reduce_dtype=torch.float32)\n",
    ),
    ("m = FSDP(m, False, True)\n", "m = shard_parameters(m, reshard=False)\n"),
    (
        "m = FSDP(m, disable_reshard_on_root=False, auto_wrap_policy=p)\n",
        "m = shard_parameters(m, policy=p, reshard=True)\n",
    ),
    (
        "m = FSDP(m, flatten_parameters=True, coalesce_all_gather_ops=True, _debug_print=True)\n",
        "m = shard_parameters(m)\n",
    ),
    (
        "m = FSDP(m)\nm.clip_grad_norm_(1.0)\n",
        "m = shard_parameters(m)\ntorch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)\n",
    ),
    (
        "m = FSDP(m)\nnn.utils.clip_grad_norm_(p, 1.0)\n",
        "m = shard_parameters(m)\nnn.utils.clip_grad_norm_(p, 1.0)\n",
    ),
]

REFUSED = [
    (
        "m = FSDP(m, sharding_groups=[[0], [1]])\n",
        3,
        "sharding_groups: fully_shard takes a DeviceMesh",
    ),
    ("m = FSDP(m, buffer_dtype=d)\n", 3, "buffer_dtype: fully_shard has no dtype for buffers"),
    (
        "m = FSDP(m, reshard_after_forward=flags.reshard)\n",
        3,
        "reshard_after_forward: its value is not a literal",
    ),
    ("m = FSDP(*a)\n", 3, "its arguments cannot be matched to parameters"),
    ("m = FSDP(m, other=1)\n", 3, "there is no equivalent of the argument other"),
    ("m = FSDP(m)\n\nassert isinstance(m, FSDP)\n", 5, "it is used as a class"),
    ("m = FSDP(m)\nm.load_state_dict(s)\n", 4, "torch.distributed.checkpoint saves"),
    (
        "m = FSDP(m)\nm.clip_grad_norm_(1.0, groups=[[0]])\n",
        4,
        "takes the groups from the DeviceMesh",
    ),
    ("m = FSDP(m)\nwith m.no_sync():\n    f()\n", 4, "set_requires_gradient_sync"),
]


@pytest.mark.parametrize(("before", "after"), CALLS)
def test_what_a_call_becomes(before, after):
    result = migrate((IMPORTS + before).encode())
    assert (
        result.code.decode().endswith(after)
        and "torch_xla" not in result.code.decode()
        and not result.left
    )
    assert migrate(result.code).code == result.code


@pytest.mark.parametrize(("program", "line", "reason"), REFUSED)
def test_what_keeps_the_wrapper(program, line, reason):
    result = migrate((IMPORTS + program).encode())
    assert result.code.decode() == IMPORTS.replace("torch_xla", "ftm_lazy.torch_xla") + program
    assert any(where == line and reason in why for where, why in result.left), result.left


def test_programs_without_the_wrapper_have_nothing_to_keep_it_for():
    result = migrate(b"import torch_xla\nm.load_state_dict(s)\nm.no_sync()\n")
    assert not result.left


PROGRAM = """
import functools
import json
import sys

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.register_buffer("scale", torch.full((16,), 0.5))

    def forward(self, x):
        return x + self.scale * self.down(self.up(self.norm(x)).relu())


def main(index, file):
    torch.manual_seed(0)
    device, rank, world = torch_xla.device(), xr.global_ordinal(), xr.world_size()
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    model = FSDP(nn.Sequential(nn.Linear(16, 16), Block(), Block(), nn.Linear(16, 3)), auto_wrap_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(20):
        x = torch.randn(16, 16, generator=torch.Generator().manual_seed(step))
        x, y = x[rank::world].to(device), x[rank::world, :3].argmax(1).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        model.clip_grad_norm_(0.5)
        optimizer.step()
        losses.append(xm.mesh_reduce("loss", loss.item(), lambda each: sum(each) / len(each)))
    if xm.is_master_ordinal():
        with open(file, "w") as opened:
            parts = [getattr(value, "to_local", lambda value=value: value)() for value in model.parameters()]
            json.dump([losses, sum(part.numel() for part in parts)], opened)


if __name__ == "__main__":
    xmp.spawn(main, (sys.argv[1],), nprocs=2)
"""


def test_a_migrated_program_trains_as_it_did(run, run_unchanged, tmp_path):
    migrated = migrate(PROGRAM.encode())
    assert (
        "fully_shard" in migrated.code.decode()
        and "ftm_lazy" not in migrated.code.decode()
        and not migrated.left
    )
    whole = re.sub(r"torch\.distributed\.fsdp\.fully_shard\(.*\)", "pass", migrated.code.decode())
    alone = (
        whole.replace(", 2)\n", ", 1)\n")
        .replace('"ftm"', '"cpu"')
        .replace('group("cpu"', 'group("gloo"')
    )
    programs = {"wrapper": PROGRAM.encode(), "migrated": migrated.code, "cpu": alone.encode()}
    found = {}
    for name, text in programs.items():
        start = run_unchanged if name == "wrapper" else run
        start(text.decode(), (str(tmp_path / name),))
        found[name] = json.loads((tmp_path / name).read_text())
    losses, sizes = (
        {name: losses for name, (losses, _) in found.items()},
        {name: size for name, (_, size) in found.items()},
    )
    # of two processes each has half
    assert sizes["migrated"] == sizes["wrapper"] < 0.6 * sizes["cpu"]
    for name in ("wrapper", "migrated"):
        assert losses[name] == pytest.approx(losses["cpu"], abs=1e-4), name
    assert losses["cpu"][-1] < losses["cpu"][0]
