"""torch_xla.amp.syncfree: optimizers that skip a step without a read from the device."""

from ftm_lazy.torch_xla.amp.syncfree.adam import Adam
from ftm_lazy.torch_xla.amp.syncfree.adamw import AdamW
from ftm_lazy.torch_xla.amp.syncfree.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]
