"""A profile of training steps for TensorBoard or Perfetto, with `StepTrace` and `Trace`.

python -m ftm_lazy.torch_xla examples/torch_xla_programs/step_trace.py --logdir /tmp/profile
"""

import argparse
import json

import torch
import torch_xla
import torch_xla.debug.profiler as xp
from torch import nn
from torch_xla.amp import autocast


def batch(step, size):
    """Points on two circles, [size, 2], and which of them."""
    generator = torch.Generator().manual_seed(step)
    angle, ring = (
        torch.rand(size, generator=generator) * 6.2832,
        torch.randint(2, (size,), generator=generator),
    )
    return torch.stack([angle.cos(), angle.sin()], 1) * (1.0 + ring[:, None]), ring.float()[:, None]


def train(flags):
    """The loss of each step."""
    device = torch_xla.device()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, flags.width),
        nn.ReLU(),
        nn.Linear(flags.width, flags.width),
        nn.ReLU(),
        nn.Linear(flags.width, 1),
    )
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=flags.lr)
    losses = []
    first, last = flags.steps // 2, flags.steps // 2 + flags.profiled - 1
    for step in range(flags.steps):
        if step == first and flags.logdir:
            xp.start_trace(flags.logdir)
        with xp.StepTrace("train", step_num=step):
            with xp.Trace("input"):
                x, y = (part.to(device) for part in batch(step, flags.batch_size))
            optimizer.zero_grad()
            with xp.Trace("forward"), autocast(device, enabled=flags.bfloat16):
                loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            with xp.Trace("backward"):
                loss.backward()
            optimizer.step()
        losses.append(loss.detach())
        if step == last and flags.logdir:
            xp.stop_trace()
        if step % flags.log_steps == 0:
            print(f"step {step:4d}  loss {losses[-1].item():.4f}")
    return torch.stack(losses).tolist()


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="A profile of some steps.")
    parser.add_argument("--logdir", help="where the profile goes; none without")
    parser.add_argument("--profiled", type=int, default=5, help="how many steps are in it")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--losses", help="file for the loss of each step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    flags = parse()
    losses = train(flags)
    if flags.losses:
        with open(flags.losses, "w") as file:
            json.dump(losses, file)
