"""``ftm-migrate``: rewrites programs for torch_xla as plain PyTorch on ftm.

    ftm-migrate path...            shows what would change, as a diff, and what it cannot change
    ftm-migrate --write path...    changes the files
    ftm-migrate --check path...    says by its exit code whether anything would change

What is not torch_xla's stays as it is, byte for byte, and a second run changes nothing. `rules` has
the rewrites.
"""

from ftm_lazy.migrate.rewrite import Migrated, migrate

__all__ = ["Migrated", "migrate"]
