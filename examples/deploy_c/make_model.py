"""Write ``model.ftm`` for the C program in this folder: a small classifier as a package.

python make_model.py [model.ftm]
"""

import sys

import torch
from torch import nn

import ftm_lazy


def main(path: str = "model.ftm") -> None:
    """Packages a classifier of 16 numbers in 4 classes, for batches of 8."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(-1)
    ).eval()
    ftm_lazy.package(torch.export.export(model, (torch.zeros(8, 16),)), path)


if __name__ == "__main__":
    main(*sys.argv[1:])
