"""``python -m ftm_lazy``: the command ``ftm``, for whoever has another program of that name."""

import sys

from ftm_backend.tools.ftm import main

if __name__ == "__main__":
    sys.exit(main())
