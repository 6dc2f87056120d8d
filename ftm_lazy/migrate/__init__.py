"""``ftm-migrate``: rewrite torch_xla programs as plain PyTorch on ftm.

    ftm-migrate path...            print a diff, and the places that need manual work
    ftm-migrate --write path...    change the files
    ftm-migrate --check path...    exit with 1 if a file would change

Code that does not use torch_xla stays byte for byte the same, and a second run changes nothing. The
rules are in `torch_xla_rewrites`.
"""

from ftm_lazy.migrate.rewrite import Migrated, migrate

__all__ = ["Migrated", "migrate"]
