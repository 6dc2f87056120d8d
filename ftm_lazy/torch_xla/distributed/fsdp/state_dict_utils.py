"""torch_xla.distributed.fsdp.state_dict_utils: the checkpoints of all processes to one of the whole
model."""

from __future__ import annotations

import glob
from typing import Any

import torch

__all__ = ["consolidate_sharded_model_checkpoints", "consolidate_sharded_state_dicts"]


def consolidate_sharded_state_dicts(
    state_dict_list: list[dict[str, torch.Tensor]], shard_metadata: dict[str, Any]
) -> dict[str, torch.Tensor]:
    """Return the state of the whole model.

    Args:
        state_dict_list: ``model.state_dict()`` of each process, by rank.
        shard_metadata: ``model.get_shard_metadata()`` of any of them.

    Raises ValueError if their number is not that of the processes.
    """
    if len(state_dict_list) != shard_metadata["world_size"]:
        raise ValueError(
            f"{len(state_dict_list)} checkpoints of {shard_metadata['world_size']} processes"
        )
    whole = {}
    for name, first in state_dict_list[0].items():
        if name in shard_metadata["shard_info"]:
            parts = torch.cat([each[name].cpu() for each in state_dict_list])
            whole[name] = parts.reshape(shard_metadata["shard_info"][name]["_orig_size"])
        else:
            whole[name] = first.cpu()
    return whole


def _load(path: str) -> dict[str, Any]:
    """Return the checkpoint in a file; ValueError where it is none."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        (
            found["shard_metadata"]["rank"],
            found["shard_metadata"]["world_size"],
            found["model"].items(),
        )
    except OSError:
        raise
    except Exception as error:  # torch.load raises many kinds for what is no file of its own
        raise ValueError(f"{path} is no checkpoint of one process: {error}") from error
    return found


def consolidate_sharded_model_checkpoints(
    ckpt_prefix: str, ckpt_suffix: str = "*.pth", save_path: str = "", save_model: bool = True
) -> tuple[dict[str, torch.Tensor], str]:
    """As `consolidate_sharded_state_dicts`, of files.

    Args:
        ckpt_prefix: and
        ckpt_suffix: together a pattern of files, each with ``model`` and ``shard_metadata``.
        save_path: where the result goes; ``PREFIX_consolidated.pth`` if empty.
        save_model: whether it is saved, as ``{"model": ...}``.

    Returns:
        the state of the whole model, and `save_path`.

    Raises ValueError if files are missing, or hold something else than tensors.
    """
    paths = glob.glob(ckpt_prefix + ckpt_suffix)
    loaded = [_load(path) for path in paths]
    loaded.sort(key=lambda each: each["shard_metadata"]["rank"])
    ranks = [each["shard_metadata"]["rank"] for each in loaded]
    if not loaded or ranks != list(range(loaded[0]["shard_metadata"]["world_size"])):
        raise ValueError(
            f"{ckpt_prefix + ckpt_suffix}: found the checkpoints of ranks {ranks}, not of all processes"
        )
    whole = consolidate_sharded_state_dicts(
        [each["model"] for each in loaded], loaded[0]["shard_metadata"]
    )
    save_path = save_path or ckpt_prefix + "_consolidated.pth"
    if save_model:
        torch.save({"model": whole}, save_path)
    return whole, save_path
