"""torch_xla.distributed.fsdp.consolidate_sharded_ckpts: the command that makes one checkpoint of
those of all processes.

python -m ftm_lazy.torch_xla -m torch_xla.distributed.fsdp.consolidate_sharded_ckpts --ckpt_prefix
/tmp/model_rank
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ftm_backend.cli import Parser, command, naming
from ftm_lazy.torch_xla.distributed.fsdp.state_dict_utils import (
    consolidate_sharded_model_checkpoints,
)

__all__ = ["main"]


def main() -> int:
    """Run the command; returns the exit status."""
    return _main()


@command("consolidate_sharded_ckpts")
def _main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser("consolidate_sharded_ckpts", "Make one checkpoint of those of all processes.")
    parser.add_argument(
        "--ckpt_prefix", required=True, help="what the names of the files begin with"
    )
    parser.add_argument("--ckpt_suffix", default="*.pth", help="a pattern that they end with")
    parser.add_argument(
        "--save_path", default="", help="where it goes; PREFIX_consolidated.pth if not given"
    )
    given = parser.parse_args(arguments)
    with naming("--ckpt_prefix", ValueError, KeyError, RuntimeError, TypeError):
        consolidate_sharded_model_checkpoints(given.ckpt_prefix, given.ckpt_suffix, given.save_path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
