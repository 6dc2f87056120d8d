"""The digits training in the style of torch_xla; only the two imports name `ftm_lazy`.

    python examples/xla_style.py

Compare with `digits.py`: the device comes from `torch_xla.device()`, the optimizer steps through
`xm.optimizer_step`, `torch_xla.step()` and `torch_xla.sync()` mark where a step ends, and `xm.save`
writes a checkpoint that any device can read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from digits import MODELS, History, digits
from rich.console import Console
from torch import nn
from torch.utils.data import DataLoader

import ftm_lazy.torch_xla as torch_xla
import ftm_lazy.torch_xla.core.xla_model as xm


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The fraction of images that the model classifies correctly."""
    model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=device)
    with torch.no_grad():
        for images, labels in loader:
            predicted = model(images.to(device)).argmax(dim=1)
            correct += (predicted == labels.to(device)).sum()
            xm.mark_step()
    return correct.item() / len(loader.dataset)


def train(args: argparse.Namespace) -> History:
    """Train with the options of `parse`, and return the history of the run."""
    device = torch_xla.device()
    console = Console(quiet=args.quiet)
    torch.manual_seed(args.seed)
    training, held_out = digits()
    order = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(
        training, args.batch_size, shuffle=True, drop_last=True, generator=order
    )
    test_loader = DataLoader(held_out, batch_size=len(held_out))

    model = MODELS[args.model](args.dropout).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    history = History()
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for images, labels in train_loader:
            with torch_xla.step():
                images, labels = images.to(device), labels.to(device)
                optimizer.zero_grad()
                loss = criterion(model(images), labels)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                xm.optimizer_step(optimizer)
                scheduler.step()
                losses.append(loss.detach())
        torch_xla.sync()
        history.losses += [loss.item() for loss in losses]
        history.accuracies.append(evaluate(model, test_loader, device))
        loss, accuracy = history.losses[-1], history.accuracies[-1]
        console.print(f"epoch {epoch + 1:2d}  loss {loss:.4f}  held-out accuracy {accuracy:.2%}")
    xm.wait_device_ops()
    if args.checkpoint:
        xm.save(model.state_dict(), args.checkpoint)
    return history


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; every option has a default."""
    parser = argparse.ArgumentParser(
        description="The digits training, as torch_xla programs are written."
    )
    parser.add_argument("--model", choices=sorted(MODELS), default="cnn")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--lr", type=float, default=3e-3, help="learning rate at the start of the cosine"
    )
    parser.add_argument(
        "--dropout", type=float, default=0.2, help="probability of dropping; 0 for none"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="where to save the trained parameters")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    train(parse())
