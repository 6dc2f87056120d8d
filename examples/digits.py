"""Train a classifier on handwritten digits, on the CPU or on `ftm`.

    python examples/digits.py --device ftm
    python examples/digits.py --device cpu --model mlp --epochs 5
    python examples/digits.py --device ftm --checkpoint digits.pt  # resumes, on either device

The data are the 1,797 images of 8x8 pixels that scikit-learn ships; a fifth is held out.
The code does not depend on the device, which is only an argument of `.to(device)`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class MLP(nn.Module):
    """Three linear layers on the flattened image; takes [N, 1, 8, 8], gives logits [N, 10]."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class CNN(nn.Module):
    """Two convolution blocks and a linear head; takes [N, 1, 8, 8], gives logits [N, 10]."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(32 * 4 * 4, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


MODELS = {"mlp": MLP, "cnn": CNN}


def digits() -> tuple[TensorDataset, TensorDataset]:
    """The training four fifths and the held-out fifth: images [N, 1, 8, 8] in 0..1, labels [N]."""
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(labels, dtype=torch.int64)
    training, held_out = train_test_split(
        range(len(labels)), test_size=0.2, stratify=labels, random_state=0
    )
    return TensorDataset(images[training], labels[training]), TensorDataset(
        images[held_out], labels[held_out]
    )


@dataclass
class History:
    """What a run leaves behind: the loss of every training step, the accuracy after every epoch."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The fraction of images that the model classifies correctly."""
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in loader:
            predicted = model(images.to(device)).argmax(dim=1)
            correct += (predicted == labels.to(device)).sum().item()
    return correct / len(loader.dataset)


def train(args: argparse.Namespace) -> History:
    """Train with the options of `parse`, and return the history of the run."""
    device = torch.device(args.device)
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

    console = Console(quiet=args.quiet)
    history = History()
    first_epoch = 0
    if args.checkpoint and args.checkpoint.exists():
        saved = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        first_epoch = saved["epoch"]
        console.print(f"going on from {args.checkpoint} after epoch {first_epoch}")

    with Progress(console=console) as progress:
        task = progress.add_task("training", total=(args.epochs - first_epoch) * len(train_loader))
        for epoch in range(first_epoch, args.epochs):
            model.train()
            for images, labels in train_loader:
                images, labels = images.to(device), labels.to(device)
                optimizer.zero_grad()
                loss = criterion(model(images), labels)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                optimizer.step()
                scheduler.step()
                history.losses.append(loss.item())
                progress.update(task, advance=1, description=f"loss {history.losses[-1]:.4f}")
            history.accuracies.append(evaluate(model, test_loader, device))
            loss, accuracy = history.losses[-1], history.accuracies[-1]
            console.print(
                f"epoch {epoch + 1:2d}  loss {loss:.4f}  held-out accuracy {accuracy:.2%}"
            )
            if args.checkpoint:
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(),
                        "epoch": epoch + 1,
                    },
                    args.checkpoint,
                )
    return history


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; every option has a default."""
    parser = argparse.ArgumentParser(description="Train on scikit-learn's handwritten digits.")
    parser.add_argument("--device", choices=["cpu", "ftm"], default="ftm", help="where to train")
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
    parser.add_argument(
        "--checkpoint", type=Path, help="saved after each epoch; read first if it exists"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    train(parse())
