"""Op records of `torch.nn`: activations, layers, losses, quantization."""

from ftm_backend.frontend.ops.nn import (  # noqa: F401  (registers the records)
    activation,
    adaptive_pooling,
    batch_norm,
    convolution,
    distance,
    embedding,
    embedding_bag,
    fold,
    grid_sample,
    interpolate,
    loss,
    margin_loss,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    softmax,
)
