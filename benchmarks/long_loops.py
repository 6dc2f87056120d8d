"""Loops that read nothing: what they cost from an empty cache, and once their programs are known.

    python benchmarks/long_loops.py [--only sampling ...] [--device cpu] [--json]

Each program runs in a process of its own, three times: the first time its pieces are compiled, the third time they
are all there.  Beside the seconds stand the programs compiled and the programs run, and the seconds of CPU time that
the process and its compiler took in all, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LIMIT = 900.0  # seconds for one program


class Block(nn.Module):
    """A transformer's layer, 64 wide."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


def sampling(device: str) -> Callable[[], Tensor]:
    """100 tokens from a transformer of four layers, in a window of 32."""
    embedding, head = nn.Embedding(65, 64).to(device), nn.Linear(64, 65).to(device)
    layers = nn.Sequential(*(Block() for _ in range(4))).to(device)

    @torch.no_grad()
    def run() -> Tensor:
        tokens = torch.zeros(1, 32, dtype=torch.long, device=device)
        for _ in range(100):
            logits = head(layers(embedding(tokens[:, -32:])))[:, -1] / 0.8
            least = logits.topk(20).values[:, [-1]]
            chances = F.softmax(logits.masked_fill(logits < least, -float("inf")), dim=-1)
            tokens = torch.cat((tokens, torch.multinomial(chances, 1)), dim=1)[:, -32:]
        return tokens

    return run


def reinforce(device: str) -> Callable[[], Tensor]:
    """30 small forward passes of a policy, and the backward pass through all of them."""
    policy = nn.Sequential(nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    states = torch.randn(30, 1, 4)

    def run() -> Tensor:
        scores = []
        for state in states:
            choice = torch.distributions.Categorical(F.softmax(policy(state.to(device)), dim=1), validate_args=False)
            scores.append(choice.log_prob(choice.sample()))
        rewards = torch.linspace(1, 0, len(scores)).to(device)
        loss = torch.stack([-score * reward for score, reward in zip(scores, rewards, strict=True)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return run


def lstm_cells(device: str) -> Callable[[], Tensor]:
    """Two LSTM cells over 1,000 steps, fitted by LBFGS."""
    first, second, linear = nn.LSTMCell(1, 51), nn.LSTMCell(51, 51), nn.Linear(51, 1)
    for module in (first, second, linear):
        module.to(device)
    parameters = [*first.parameters(), *second.parameters(), *linear.parameters()]
    optimizer = torch.optim.LBFGS(parameters, lr=0.8, max_iter=2)
    series = torch.sin(torch.arange(1001) / 20.0).repeat(8, 1).to(device)

    def closure() -> Tensor:
        optimizer.zero_grad()
        zeros = torch.zeros(8, 51, device=device)
        state, state2, outputs = (zeros, zeros), (zeros, zeros), []
        for column in series[:, :-1].split(1, dim=1):
            state = first(column, state)
            state2 = second(state[0], state2)
            outputs.append(linear(state2[0]))
        loss = F.mse_loss(torch.cat(outputs, dim=1), series[:, 1:])
        loss.backward()
        return loss

    return lambda: optimizer.step(closure)


def diffusion(device: str) -> Callable[[], Tensor]:
    """200 denoising steps of a small network."""
    net = nn.Sequential(nn.Linear(3, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2)).to(device)
    betas = torch.linspace(1e-4, 0.02, 200)
    alphas = torch.cumprod(1 - betas, 0)

    @torch.no_grad()
    def run() -> Tensor:
        x = torch.randn(256, 2, device=device)
        for t in reversed(range(200)):
            time_now = torch.full((256, 1), t / 200, device=device)
            noise = net(torch.cat((x, time_now), dim=1))
            beta, alpha = float(betas[t]), float(alphas[t])
            x = (x - beta / (1 - alpha) ** 0.5 * noise) / (1 - beta) ** 0.5
            if t > 0:
                x = x + beta**0.5 * torch.randn_like(x)
        return x

    return run


def gru(steps: int) -> Callable[[str], Callable[[], Tensor]]:
    """A GRU of two layers, 32 wide, forward and backward."""

    def make(device: str) -> Callable[[], Tensor]:
        net = nn.GRU(8, 32, 2).to(device)
        x = torch.randn(steps, 4, 8).to(device)

        def run() -> Tensor:
            net.zero_grad()
            loss = net(x)[0].square().mean()
            loss.backward()
            return loss

        return run

    return make


PROGRAMS: dict[str, Callable[[str], Callable[[], Tensor]]] = {
    "sampling": sampling,
    "reinforce": reinforce,
    "lstm_cells": lstm_cells,
    "diffusion": diffusion,
    **{f"gru_{steps}": gru(steps) for steps in (16, 32, 64, 128)},
}


def measure(name: str, device: str) -> dict[str, float]:
    """Seconds of each run, and what the device did in it."""
    import ftm_lazy

    torch.manual_seed(0)
    run = PROGRAMS[name](device)
    row: dict[str, float] = {}
    for round_ in ("cold", "second", "warm"):
        begin = time.perf_counter()
        float(run().detach().sum())
        row[round_] = time.perf_counter() - begin
        if device != "cpu":
            counters = ftm_lazy.metrics.counters()
            row[f"{round_} compiles"], row[f"{round_} programs"] = counters["compiles"], counters["executions"]
            ftm_lazy.metrics.reset()
    row["CPU seconds"] = time.process_time()
    if device != "cpu":
        row["CPU seconds"] += _cpu_seconds(ftm_lazy.compiler.bridge().worker_pid())
    return row


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--device", default="ftm")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.device)))
        return
    for name in options.only:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, "--measure", name, "--device", options.device]
            try:
                done = subprocess.run(
                    command, env=os.environ | {"FTM_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True, timeout=LIMIT
                )
                row = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.returncode}
            except subprocess.TimeoutExpired:
                row = {"longer than": LIMIT}
        if options.json:
            print(json.dumps({"program": name} | row), flush=True)
        else:
            print(f"{name:12}" + "".join(f"  {key} {value:.4g}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
