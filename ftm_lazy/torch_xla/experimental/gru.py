"""torch_xla.experimental.gru: `torch.nn.GRU` for long sequences, implemented with `scan`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ftm_lazy.torch_xla.experimental.scan import scan

__all__ = ["GRU"]


class GRU(nn.GRU):
    """`torch.nn.GRU` whose compile time does not depend on the sequence length.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features of the state.
        num_layers: Number of stacked layers.
        bias: Whether there are biases.
        batch_first: The input is [batch, time, features] instead of [time, batch, features].
        dropout: Probability of dropout between layers.
        bidirectional: Not supported.

    Raises:
        ValueError: `bidirectional` is True, as in torch_xla.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        if bidirectional:
            raise ValueError("GRU by scan has one direction; use torch.nn.GRU for two")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout)

    def forward(
        self, input: torch.Tensor, hx: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run all layers.

        Args:
            input: [time, batch, features] or as `batch_first` requires, or [time, features].
            hx: First states [layers, batch, hidden] or [layers, hidden]; None for zeros.

        Returns:
            The states of the last layer at all times, and the last states of all layers.
        """
        batched = input.dim() == 3
        sequence = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            sequence = sequence.transpose(0, 1)
        if hx is None:
            hx = sequence.new_zeros(self.num_layers, sequence.shape[1], self.hidden_size)
        elif not batched:
            hx = hx.unsqueeze(1)
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                sequence = functional.dropout(sequence, self.dropout, self.training)
            state, sequence = self._layer(layer, sequence, hx[layer])
            last.append(state)
        states = torch.stack(last)
        if not batched:
            return sequence.squeeze(1), states.squeeze(1)
        return sequence.transpose(0, 1) if self.batch_first else sequence, states

    def _layer(
        self, layer: int, sequence: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        weight_ih, weight_hh = (
            getattr(self, f"weight_ih_l{layer}"),
            getattr(self, f"weight_hh_l{layer}"),
        )
        bias_ih, bias_hh = (
            getattr(self, f"bias_{n}_l{layer}") if self.bias else None for n in ("ih", "hh")
        )

        def step(state: torch.Tensor, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            reset_h, update_h, new_h = functional.linear(state, weight_hh, bias_hh).chunk(3, 1)
            reset_i, update_i, new_i = inputs.chunk(3, 1)
            reset, update = torch.sigmoid(reset_i + reset_h), torch.sigmoid(update_i + update_h)
            new = torch.tanh(new_i + reset * new_h)
            state = new + update * (state - new)
            return state, state

        return scan(step, state, functional.linear(sequence, weight_ih, bias_ih))
