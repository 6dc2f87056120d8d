"""Generation with Transformers that records a token while the device computes the one before.

``generate`` stops when all texts have ended. It reads that from the device after each token, and
the device is idle while Python records the next one. Transformers has a remedy for Apple's devices,
``DeferredStopCheck``: it reads one token late, and if the texts had ended, drops the token in
excess. It is as useful here. Example: at step 7, the program of token 7 is launched, then the
decision of step 6 is read, which is computed already.
"""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import Any

import torch

from ftm_lazy import _C
from ftm_lazy.device.torch_ftm import get_rng_state, set_rng_state
from ftm_lazy.torch_version import private_names


class _Later:
    """A value of this step that the next step reads, with the names of a tensor on the host."""

    value: torch.Tensor

    def copy_(self, value: torch.Tensor, non_blocking: bool) -> None:
        self.value = value

    def clone(self) -> torch.Tensor:
        return self.value.cpu()

    def __bool__(self) -> bool:
        return bool(self.value)


class _Launch:
    """Launches the step, with the names of an event. Reading a value waits for it."""

    def record(self) -> None:
        _C._sync(False)

    def synchronize(self) -> None:
        pass


def defer_stop(utils: ModuleType) -> None:
    """Let ``transformers.generation.utils`` defer the decision to stop on ftm.

    Older versions have nothing to defer it by, and stay as they are.
    """
    original: Any = getattr(utils, "DeferredStopCheck", None)
    if original is None:
        return

    def is_ours(device: torch.device) -> bool:
        return device.type == private_names.privateuse1_name()

    class DeferredStopCheck(original):
        """Keeps the last steps' decisions, and the generator's states behind them."""

        def __init__(self, input_ids: torch.Tensor, *args: object, **kwargs: object) -> None:
            super().__init__(input_ids, *args, **kwargs)
            self.device = input_ids.device
            self.random_states: deque[torch.Tensor] = deque(maxlen=2)
            if is_ours(self.device):
                self.slots: deque[object] = deque((_Later(), _Later(), _Launch()) for _ in range(2))

        @staticmethod
        def is_supported(device: torch.device, *args: object, **kwargs: object) -> bool:
            """Return upstream's answer for a device that defers."""
            deferring = torch.device("mps") if is_ours(device) else device
            return bool(original.is_supported(deferring, *args, **kwargs))

        def __call__(self, *args: object, **kwargs: object) -> bool:
            if is_ours(self.device):
                self.random_states.append(get_rng_state(self.device))
            return bool(super().__call__(*args, **kwargs))

        def finish(self) -> int:
            """Undo the numbers that the step in excess drew, too."""
            steps = int(super().finish())
            if steps and is_ours(self.device):
                set_rng_state(self.random_states[0], self.device)
            return steps

    utils.DeferredStopCheck = DeferredStopCheck  # type: ignore[attr-defined]
