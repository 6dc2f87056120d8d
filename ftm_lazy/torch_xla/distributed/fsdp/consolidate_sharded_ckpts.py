"""torch_xla.distributed.fsdp.consolidate_sharded_ckpts: the command that makes one checkpoint of those of all processes.

python -m ftm_lazy.torch_xla -m torch_xla.distributed.fsdp.consolidate_sharded_ckpts --ckpt_prefix /tmp/model_rank
"""

from __future__ import annotations

import argparse

from ftm_lazy.torch_xla.distributed.fsdp.state_dict_utils import consolidate_sharded_model_checkpoints

__all__ = ["main"]


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Make one checkpoint of those of all processes.")
    parser.add_argument("--ckpt_prefix", required=True, help="what the names of the files begin with")
    parser.add_argument("--ckpt_suffix", default="*.pth", help="a pattern that they end with")
    parser.add_argument("--save_path", default="", help="where it goes; PREFIX_consolidated.pth if not given")
    given = parser.parse_args()
    consolidate_sharded_model_checkpoints(given.ckpt_prefix, given.ckpt_suffix, given.save_path)


if __name__ == "__main__":
    main()
