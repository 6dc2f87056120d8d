"""Tensors that go to and come from other libraries: DLPack, safetensors, and flex attention's
masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def test_dlpack_to_pytorch_shares_the_storage() -> None:
    tensor = torch.arange(6.0, device="ftm").reshape(2, 3).t()
    assert tensor.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLExtDev, 0)
    other = torch.from_dlpack(tensor)
    assert other.device == tensor.device and other.stride() == tensor.stride()
    other += 1
    assert tensor.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor)).device.type == "ftm"


def test_dlpack_to_numpy_shares_memory_that_is_not_written() -> None:
    tensor = torch.arange(6.0, device="ftm").reshape(2, 3).t() * 2
    first, second = (np.from_dlpack(tensor, device="cpu") for _ in range(2))
    assert first.tolist() == tensor.tolist() and np.shares_memory(first, second)
    assert not first.flags.writeable
    tensor += 1  # a new value elsewhere
    assert first.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    del tensor
    torch.ftm.empty_cache()
    assert second.tolist() == first.tolist()
    copied = np.from_dlpack(torch.ones(3, device="ftm"), device="cpu", copy=True)
    copied += 1
    assert copied.tolist() == [2.0] * 3
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(torch.ones(3, device="ftm", requires_grad=True), device="cpu")


def test_dlpack_from_other_libraries() -> None:
    array = np.arange(4.0)
    assert torch.from_dlpack(array, device="ftm").tolist() == array.tolist()
    assert torch.from_dlpack(torch.ones(2, device="ftm"), device="cpu").tolist() == [1.0, 1.0]
    assert torch.from_dlpack(torch.ones(2)).device.type == "cpu"


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": torch.tensor([True]),
        "c": torch.ones(2, dtype=torch.bfloat16),
    }
    safetensors.torch.save_file({name: tensor.to("ftm") for name, tensor in tensors.items()}, path)
    for device in ("ftm", "ftm:0"):
        loaded = safetensors.torch.load_file(path, device=device)
        assert all(
            loaded[name].device.type == "ftm" and torch.equal(loaded[name].cpu(), tensor)
            for name, tensor in tensors.items()
        )
    with safetensors.safe_open(path, framework="pt", device="ftm") as file:
        assert sorted(file.keys()) == ["a", "b", "c"]
        assert file.get_tensor("a").device.type == "ftm"
        assert file.get_slice("a")[:, 1:].tolist() == [[1.0, 2.0], [4.0, 5.0]] and file.get_slice(
            "a"
        ).get_shape() == [2, 3]
    assert safetensors.torch.load_file(path)["a"].device.type == "cpu"
    model = torch.nn.Linear(3, 2).to("ftm")
    safetensors.torch.save_model(model, str(path))
    assert not safetensors.torch.load_model(model, path, device="ftm")[0]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 4 if k == 0 else 2, 128, 8) for k in range(3))

    def score(
        scores: torch.Tensor, batch: int, head: int, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return scores + (i - j) * 0.01

    results = []
    for device in ("cpu", "ftm"):
        mask = create_block_mask(
            lambda batch, head, i, j: i >= j, None, None, 128, 128, device=device
        )
        own = [x.to(device) for x in (query, key, value)]
        results.append(
            flex_attention(*own, score_mod=score, block_mask=mask, enable_gqa=True).cpu()
        )
    torch.testing.assert_close(results[1], results[0])
    leaves = [x.to("ftm").requires_grad_() for x in (query, key, value)]
    flex_attention(*leaves, score_mod=score, enable_gqa=True).square().sum().backward()
    want = [x.clone().requires_grad_() for x in (query, key, value)]
    bias = (torch.arange(128).unsqueeze(1) - torch.arange(128)) * 0.01
    torch.nn.functional.scaled_dot_product_attention(
        *want, attn_mask=bias, enable_gqa=True
    ).square().sum().backward()
    for own_leaf, leaf in zip(leaves, want, strict=True):
        torch.testing.assert_close(own_leaf.grad.cpu(), leaf.grad, rtol=1e-3, atol=1e-4)
    with torch.autocast("ftm", dtype=torch.bfloat16):
        assert (
            flex_attention(*(x.to("ftm") for x in (query, key, value)), enable_gqa=True).dtype
            == torch.bfloat16
        )
