"""A residual network trained with `launch`, `MpDeviceLoader` and `optimizer_step`.

    python -m ftm_lazy.torch_xla examples/torch_xla_programs/resnet.py --steps 200

The structure is that of torch_xla's ImageNet example. The images are synthetic: a pattern for each
class, with noise.
"""

import argparse
import json

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Block(nn.Module):
    """Two convolutions and the way past them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.past = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.past = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(inner)) + self.past(x))


def resnet(width):
    """A stem, three blocks, a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, CLASSES),
    )


def images(count, size, seed):
    """`count` images [3, size, size] and their classes."""
    patterns = torch.randn(CLASSES, 3, size, size, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    return TensorDataset(
        patterns[labels] + torch.randn(count, 3, size, size, generator=generator), labels
    )


def loader(dataset, batch_size, device):
    """The batches of this process, on the device."""
    part = torch.utils.data.Subset(
        dataset, range(xr.global_ordinal(), len(dataset), xr.world_size())
    )
    return pl.MpDeviceLoader(DataLoader(part, batch_size=batch_size, drop_last=True), device)


def accuracy(model, batches):
    """The share of images that are classified right."""
    model.eval()
    right, seen = 0, 0
    with torch.no_grad():
        for data, target in batches:
            right += (model(data).argmax(1) == target).sum()
            seen += target.numel()
    model.train()
    return xm.mesh_reduce("accuracy", right.item() / seen, lambda each: sum(each) / len(each))


def train(index, flags):
    """The main function of each process."""
    torch.manual_seed(0)
    device = xm.xla_device()
    model = resnet(flags.width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=flags.lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=flags.steps)
    training = loader(
        images(flags.steps * flags.batch_size, flags.size, seed=2), flags.batch_size, device
    )
    held_out = loader(images(4 * flags.batch_size, flags.size, seed=3), flags.batch_size, device)
    tracker = xm.RateTracker()
    losses = []

    def report(step, loss):
        losses.append(loss.item())
        if step % flags.log_steps == 0:
            xm.master_print(f"step {step:4d}  loss {losses[-1]:.4f}  {tracker.rate():.0f} images/s")

    for step, (data, target) in enumerate(training):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        xm.optimizer_step(optimizer)
        schedule.step()
        tracker.add(flags.batch_size)
        xm.add_step_closure(report, args=(step, loss))
    xm.master_print(f"held-out accuracy {accuracy(model, held_out):.2%}")
    if flags.metrics:
        xm.master_print(met.metrics_report())
    if flags.save:
        xm.save(model.state_dict(), flags.save)
    if flags.losses and xm.is_master_ordinal():
        with open(flags.losses, "w") as file:
            json.dump(losses, file)


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="A residual network on images.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=16, help="height and width of the images")
    parser.add_argument("--width", type=int, default=8, help="channels of the first block")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--metrics", action="store_true", help="print the metrics at the end")
    parser.add_argument("--save", help="file for the trained parameters")
    parser.add_argument("--losses", help="file for the loss of each step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    torch_xla.launch(train, args=(parse(),))
