"""torch_xla.distributed.fsdp.state_dict_utils: merge the checkpoints of all processes."""

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
        shard_metadata: ``model.get_shard_metadata()`` of any process.

    Returns:
        Parameter and buffer names to CPU tensors.

    Raises:
        ValueError: The number of states is not that of the processes.
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
    """Load a checkpoint; ValueError if the file is not one."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        (
            found["shard_metadata"]["rank"],
            found["shard_metadata"]["world_size"],
            found["model"].items(),
        )
    except OSError:
        raise
    except Exception as error:  # torch.load raises many types of errors for other files
        raise ValueError(f"{path} is not a checkpoint of one process: {error}") from error
    return found


def consolidate_sharded_model_checkpoints(
    ckpt_prefix: str, ckpt_suffix: str = "*.pth", save_path: str = "", save_model: bool = True
) -> tuple[dict[str, torch.Tensor], str]:
    """Merge checkpoint files of all processes.

    Args:
        ckpt_prefix: Prefix of the files' paths. Each file has ``model`` and ``shard_metadata``.
        ckpt_suffix: Pattern of the paths' ends.
        save_path: Output file; "" for ``PREFIX_consolidated.pth``.
        save_model: Whether to write it, as ``{"model": ...}``.

    Returns:
        The state of the whole model, and the path of the output file.

    Raises:
        ValueError: A file is missing or has another content.
    """
    paths = glob.glob(ckpt_prefix + ckpt_suffix)
    loaded = [_load(path) for path in paths]
    loaded.sort(key=lambda each: each["shard_metadata"]["rank"])
    ranks = [each["shard_metadata"]["rank"] for each in loaded]
    if not loaded or ranks != list(range(loaded[0]["shard_metadata"]["world_size"])):
        raise ValueError(
            f"{ckpt_prefix + ckpt_suffix}: found the checkpoints of ranks {ranks},"
            " not of all processes"
        )
    whole = consolidate_sharded_state_dicts(
        [each["model"] for each in loaded], loaded[0]["shard_metadata"]
    )
    save_path = save_path or ckpt_prefix + "_consolidated.pth"
    if save_model:
        torch.save({"model": whole}, save_path)
    return whole, save_path
