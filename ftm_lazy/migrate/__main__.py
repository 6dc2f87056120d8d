"""``python -m ftm_lazy.migrate``, the same as ``ftm migrate``."""

import sys

from ftm_lazy.tools.ftm_migrate import main

if __name__ == "__main__":
    sys.exit(main())
