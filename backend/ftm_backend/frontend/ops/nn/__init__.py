"""What `torch.nn` is made of: activations, layers, losses, quantized products."""

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
    normalize,
    padding,
    pooling,
    quantization,
    recurrent,
    softmax,
)
