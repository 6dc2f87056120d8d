"""All tests: programs are cached beside the build, apart from the user's own; settings of the shell do not reach them."""

import os
from pathlib import Path

for _name in [name for name in os.environ if name.startswith("FTM_")]:
    del os.environ[_name]
os.environ["FTM_CACHE_DIR"] = str(Path(__file__).parents[1] / "build" / "test-cache")
