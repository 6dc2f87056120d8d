"""torch_xla.distributed.fsdp.consolidate_sharded_ckpts: command to merge sharded checkpoints.

Run it by ``python -m ftm_lazy.torch_xla -m`` with this module's name and ``--ckpt_prefix PREFIX``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ftm_backend.cli_common import Parser, command, naming
from ftm_lazy.torch_xla.distributed.fsdp.state_dict_utils import (
    consolidate_sharded_model_checkpoints,
)

__all__ = ["main"]


def main() -> int:
    """Run the command, and return the exit status."""
    return _main()


@command("consolidate_sharded_ckpts")
def _main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser("consolidate_sharded_ckpts", "Merge the checkpoints of all processes.")
    parser.add_argument("--ckpt_prefix", required=True, help="prefix of the files' paths")
    parser.add_argument("--ckpt_suffix", default="*.pth", help="pattern of the paths' ends")
    parser.add_argument(
        "--save_path", default="", help="output file (default: PREFIX_consolidated.pth)"
    )
    given = parser.parse_args(arguments)
    with naming("--ckpt_prefix", ValueError, KeyError, RuntimeError, TypeError):
        consolidate_sharded_model_checkpoints(given.ckpt_prefix, given.ckpt_suffix, given.save_path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
