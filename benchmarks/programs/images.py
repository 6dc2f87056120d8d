"""Networks for images from the transformers library: ten training steps each, the loss read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .steps import minimize

__all__ = ["PROGRAMS"]


def efficientnet() -> nn.Module:
    """EfficientNet-B0."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(
        image_size=64, width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, num_labels=10
    )
    return EfficientNetForImageClassification(config)


def vit() -> nn.Module:
    """ViT-tiny."""
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            hidden_size=192,
            num_hidden_layers=12,
            num_attention_heads=3,
            intermediate_size=768,
            image_size=64,
            patch_size=8,
            num_labels=10,
        )
    )


def swin() -> nn.Module:
    """Swin-tiny."""
    from transformers import SwinConfig, SwinForImageClassification

    return SwinForImageClassification(
        SwinConfig(image_size=64, patch_size=2, window_size=4, num_labels=10)
    )


def resnet18() -> nn.Module:
    """ResNet-18."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(
        ResNetConfig(
            embedding_size=64,
            hidden_sizes=[64, 128, 256, 512],
            depths=[2, 2, 2, 2],
            layer_type="basic",
            num_labels=10,
        )
    )


def trained(make: Callable[[], Any], size: int = 64) -> Callable[[str], Callable[[], Tensor]]:
    """Ten steps with AdamW on batches of 4."""

    def program(device: str) -> Callable[[], Tensor]:
        model = make().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

        def run() -> Tensor:
            for _ in range(10):
                images, labels = (
                    torch.randn(4, 3, size, size).to(device),
                    torch.randint(10, (4,)).to(device),
                )
                loss = F.cross_entropy(model(images).logits, labels)
                minimize(optimizer, loss)
                loss.item()
            return loss

        return run

    return program


PROGRAMS = {
    "efficientnet": trained(efficientnet),
    "vit": trained(vit),
    "swin": trained(swin),
    "resnet18": trained(resnet18, 32),
}
