"""torch_xla.experimental.gru: `torch.nn.GRU` for long sequences, implemented with `scan`."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from ftm_lazy.torch_xla.experimental.scan import scan

__all__ = ["GRU"]

_BIDIRECTIONAL = 6
"""Position of the argument of `torch.nn.GRU`."""


class GRU(nn.GRU):
    """`torch.nn.GRU` whose compile time does not depend on the sequence length.

    It takes the arguments of `torch.nn.GRU`, and it is a `torch.nn.GRU` if `bidirectional` is True,
    as in torch_xla. The input is a tensor, not a `PackedSequence`.
    """

    def __new__(cls, *args: object, **kwargs: object) -> nn.GRU:
        """Create the layer, or a `torch.nn.GRU` for two directions."""
        positional = args[_BIDIRECTIONAL] if len(args) > _BIDIRECTIONAL else False
        if kwargs.get("bidirectional", positional):
            return nn.GRU(*args, **kwargs)
        return super().__new__(cls)

    @functools.wraps(nn.GRU.forward)
    def forward(  # noqa: D102  (the docstring is PyTorch's)
        self, input: torch.Tensor, hx: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(input, PackedSequence):
            raise TypeError("GRU by scan takes a tensor; use torch.nn.GRU for a PackedSequence")
        is_batched = input.dim() == 3
        sequence = input if is_batched else input.unsqueeze(1)
        if is_batched and self.batch_first:
            sequence = sequence.transpose(0, 1)
        if hx is None:
            hx = sequence.new_zeros(self.num_layers, sequence.shape[1], self.hidden_size)
        elif not is_batched:
            hx = hx.unsqueeze(1)
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                sequence = functional.dropout(sequence, self.dropout, self.training)
            state, sequence = _run_layer(self, layer, sequence, hx[layer])
            last.append(state)
        states = torch.stack(last)
        if not is_batched:
            return sequence.squeeze(1), states.squeeze(1)
        return sequence.transpose(0, 1) if self.batch_first else sequence, states


def _run_layer(
    gru: GRU, layer: int, sequence: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the last state [batch, hidden] and all states [time, batch, hidden] of a layer."""
    weight_ih, weight_hh = (getattr(gru, f"weight_{n}_l{layer}") for n in ("ih", "hh"))
    bias_ih, bias_hh = (
        getattr(gru, f"bias_{n}_l{layer}") if gru.bias else None for n in ("ih", "hh")
    )

    def step(state: torch.Tensor, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        reset_h, update_h, new_h = functional.linear(state, weight_hh, bias_hh).chunk(3, 1)
        reset_i, update_i, new_i = inputs.chunk(3, 1)
        reset, update = torch.sigmoid(reset_i + reset_h), torch.sigmoid(update_i + update_h)
        new = torch.tanh(new_i + reset * new_h)
        state = new + update * (state - new)
        return state, state

    return scan(step, state, functional.linear(sequence, weight_ih, bias_ih))
