"""Reinforcement: many small forward passes, and a backward pass through all of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .steps import minimize

__all__ = ["PROGRAMS"]


class Pole:
    """A pole on a cart, as the classic control task has it."""

    def reset(self) -> Tensor:
        """The first state."""
        self.state = (torch.rand(4) - 0.5) / 10
        return self.state

    def step(self, action: int) -> tuple[Tensor, bool]:
        """The next state, and whether the pole fell."""
        x, v, angle, spin = self.state.tolist()
        force = 10.0 if action else -10.0
        sine, cosine = torch.sin(self.state[2]).item(), torch.cos(self.state[2]).item()
        push = (force + 0.05 * spin * spin * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
        self.state = torch.tensor(
            [
                x + 0.02 * v,
                v + 0.02 * (push - 0.05 * turn * cosine / 1.1),
                angle + 0.02 * spin,
                spin + 0.02 * turn,
            ]
        )
        return self.state, bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21)


def reinforce(device: str) -> Callable[[], Tensor]:
    """pytorch/examples' ``reinforce.py``, 30 episodes: each action is read."""
    policy = nn.Sequential(nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2)).to(
        device
    )
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def episode(pole: Pole) -> Tensor:
        state, scores, rewards = pole.reset(), [], []
        for _ in range(200):
            choice = torch.distributions.Categorical(
                F.softmax(policy(state.unsqueeze(0).to(device)), dim=1)
            )
            action = choice.sample()
            scores.append(choice.log_prob(action))
            state, fell = pole.step(int(action.item()))
            rewards.append(1.0)
            if fell:
                break
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        values = torch.tensor(returns)
        values = ((values - values.mean()) / (values.std() + 1e-6)).to(device)
        loss = torch.cat(
            [-score * value for score, value in zip(scores, values, strict=True)]
        ).sum()
        minimize(optimizer, loss)
        return loss

    def run() -> Tensor:
        pole = Pole()
        return torch.stack([episode(pole).detach() for _ in range(30)]).sum()

    return run


def policy_gradient(device: str) -> Callable[[], Tensor]:
    """Run 30 forward passes without reads between them, and one backward pass; 5 times."""
    policy = nn.Sequential(nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2)).to(
        device
    )
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    states = torch.randn(30, 1, 4)

    def run() -> Tensor:
        for _ in range(5):
            scores = []
            for state in states:
                choice = torch.distributions.Categorical(
                    F.softmax(policy(state.to(device)), dim=1), validate_args=False
                )
                scores.append(choice.log_prob(choice.sample()))
            rewards = torch.linspace(1, 0, len(scores)).to(device)
            loss = torch.stack(
                [-score * reward for score, reward in zip(scores, rewards, strict=True)]
            ).sum()
            minimize(optimizer, loss)
        return loss

    return run


PROGRAMS = {"reinforce": reinforce, "policy_gradient": policy_gradient}
