"""From linalg to tiles: the passes are listed in `pipeline`."""
