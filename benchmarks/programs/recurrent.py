"""Recurrent networks: PyTorch's layers, cells that the program's own loop calls, lengths that
vary."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .language import BATCH, WIDTH, lengths, trained

__all__ = ["PROGRAMS"]


def lstm() -> nn.Module:
    """Two layers."""
    return nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)


def packed(device: str) -> Callable[[], Tensor]:
    """An LSTM on packed batches, of other lengths each time."""
    net = nn.LSTM(WIDTH, WIDTH).to(device)

    def run() -> Tensor:
        for longest in lengths(30):
            sizes = torch.randint(1, longest + 1, (BATCH,))
            sizes[0] = longest
            batch = torch.randn(longest, BATCH, WIDTH).to(device)
            net.zero_grad()
            net(nn.utils.rnn.pack_padded_sequence(batch, sizes, enforce_sorted=False))[1][
                0
            ].square().mean().backward()
            net.weight_hh_l0.grad.sum().item()
        return net.weight_hh_l0.grad

    return run


def time_sequence(iterations: int) -> Callable[[str], Callable[[], Tensor]]:
    """pytorch/examples' ``time_sequence_prediction``: two LSTM cells over 999 steps, fitted by
    LBFGS, and 1,000 predicted."""

    def make(device: str) -> Callable[[], Tensor]:
        first, second, linear = (
            nn.LSTMCell(1, 51).to(device),
            nn.LSTMCell(51, 51).to(device),
            nn.Linear(51, 1).to(device),
        )
        parameters = [*first.parameters(), *second.parameters(), *linear.parameters()]
        optimizer = torch.optim.LBFGS(parameters, lr=0.8, max_iter=iterations)
        series = torch.sin((torch.arange(1000) + torch.randint(-80, 80, (97, 1))) / 20.0).to(device)

        def forward(columns: Tensor, future: int = 0) -> Tensor:
            outputs = []
            state, state2 = (
                (torch.zeros(columns.size(0), 51, device=device),) * 2 for _ in range(2)
            )
            for column in columns.split(1, dim=1):
                state = first(column, state)
                state2 = second(state[0], state2)
                outputs.append(linear(state2[0]))
            for _ in range(future):
                state = first(outputs[-1], state)
                state2 = second(state[0], state2)
                outputs.append(linear(state2[0]))
            return torch.cat(outputs, dim=1)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(forward(series[3:, :-1]), series[3:, 1:])
            loss.backward()
            loss.item()
            return loss

        def run() -> Tensor:
            optimizer.step(closure)
            with torch.no_grad():
                return forward(series[:3, :-1], future=1000)

        return run

    return make


def word_language(device: str) -> Callable[[], Tensor]:
    """30 steps of pytorch/examples' ``word_language_model``: two layers of LSTM, 35 words, states
    kept."""
    embedding, head = nn.Embedding(1000, 200).to(device), nn.Linear(200, 1000).to(device)
    layers = nn.LSTM(200, 200, 2, dropout=0.2).to(device)
    parameters = [*embedding.parameters(), *layers.parameters(), *head.parameters()]

    def run() -> Tensor:
        state = tuple(torch.zeros(2, 20, 200, device=device) for _ in range(2))
        total = torch.zeros((), device=device)
        for k in range(30):
            words = torch.randint(1000, (36, 20)).to(device)
            state = tuple(part.detach() for part in state)
            made, state = layers(F.dropout(embedding(words[:-1]), 0.2), state)
            loss = F.nll_loss(
                F.log_softmax(head(F.dropout(made, 0.2)).flatten(0, 1), dim=1), words[1:].flatten()
            )
            for parameter in parameters:
                parameter.grad = None
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.25)
            for parameter in parameters:
                parameter.data.add_(parameter.grad, alpha=-20.0 / 1000)
            total += loss.detach()
            if k % 10 == 9:
                total.item()
        return total

    return run


def gru(steps: int) -> Callable[[str], Callable[[], Tensor]]:
    """A GRU of two layers, 32 wide, forward and backward."""

    def make(device: str) -> Callable[[], Tensor]:
        net, x = nn.GRU(8, 32, 2).to(device), torch.randn(steps, 4, 8).to(device)

        def run() -> Tensor:
            net.zero_grad()
            loss = net(x)[0].square().mean()
            loss.backward()
            return loss

        return run

    return make


def lstm_512(device: str) -> Callable[[], Tensor]:
    """A training step of an LSTM over 512 steps."""
    net, x = nn.LSTM(32, 64).to(device), torch.randn(512, 8, 32).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def run() -> Tensor:
        optimizer.zero_grad()
        loss = net(x)[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return run


PROGRAMS = {
    "lstm_lengths": trained(lstm, lengths(30) * 3),
    "packed": packed,
    "time_sequence": time_sequence(3),
    "word_language": word_language,
    "gru_16": gru(16),
    "gru_128": gru(128),
    "lstm_512": lstm_512,
}
