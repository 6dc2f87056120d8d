"""Storages beneath tensors: slices of them share their bytes, wherever they begin and whatever is
read there."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

MEGABYTE = 1 << 20


def _bytes(device: str, count: int = 24) -> Tensor:
    return (torch.arange(count, dtype=torch.int32) % 251).to(torch.uint8).to(device)


def _pending(device: str, count: int = 24) -> Tensor:
    return _bytes(device, count) + 1


def _of(storage: torch.UntypedStorage, dtype: torch.dtype) -> Tensor:
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage)


def _read(tensor: Tensor) -> list[Any]:
    storage = tensor.untyped_storage()
    return [
        storage[begin:end].tolist()
        for begin, end in ((0, 4), (4, 8), (3, 9), (20, 24), (24, 24), (-4, -1))
    ]


def _read_as(tensor: Tensor) -> list[Any]:
    storage = tensor.untyped_storage()
    return [
        _of(storage[begin:end], dtype).tolist()
        for begin, end in ((4, 12), (3, 14), (1, 24))
        for dtype in (torch.int16, torch.int64)
    ]


def _write_through(tensor: Tensor) -> list[Any]:
    storage = tensor.untyped_storage()
    _of(storage[4:12], torch.int32).add_(1)
    storage[13:15].fill_(9)
    odd = _of(storage[3:21], torch.int16)
    odd[2:6:2] = 513
    odd[-1] += 1
    return [tensor.tolist(), odd.tolist()]


def _written_beneath(tensor: Tensor) -> list[Any]:
    part = tensor.untyped_storage()[5:11]
    tensor.add_(3)
    return [part.tolist(), _of(part, torch.int16).tolist()]


def _slice_of_a_slice(tensor: Tensor) -> list[Any]:
    part = tensor.untyped_storage()[5:20][2:9]
    part.fill_(7)
    return [part.tolist(), part.data_ptr() - tensor.data_ptr(), tensor.tolist()]


def _copies(tensor: Tensor) -> list[Any]:
    part = tensor.untyped_storage()[5:11]
    file = io.BytesIO()
    torch.save(part, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    whole = torch.zeros(24, dtype=torch.uint8, device=tensor.device)
    whole.untyped_storage()[8:14].copy_(part)
    return [
        part.cpu().tolist(),
        part.clone().tolist(),
        copy.deepcopy(part).tolist(),
        loaded.tolist(),
        whole.tolist(),
    ]


def _as_an_index(tensor: Tensor) -> list[Any]:
    places = torch.tensor([9, 1, 2, 0]).to(tensor.device)
    inner = _of(places.untyped_storage()[8:], torch.int64)
    return [torch.arange(3).to(tensor.device)[inner].tolist()]


CASES: dict[str, Callable[[Tensor], list[Any]]] = {
    "read": _read, "read as other types": _read_as, "written through": _write_through,
    "written beneath": _written_beneath, "slice of a slice": _slice_of_a_slice,
    "copied and saved": _copies, "as an index": _as_an_index,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_slices_are_those_of_the_cpu(name: str) -> None:
    for make in (_bytes, _pending):
        assert CASES[name](make("ftm")) == CASES[name](make("cpu"))


def test_slices_far_from_the_beginning() -> None:
    """An address identifies its storage, however many there are."""
    for tensor in [_bytes("ftm", 3 * MEGABYTE) for _ in range(3)]:
        storage = tensor.untyped_storage()
        for begin in (MEGABYTE, 2 * MEGABYTE - 1, 3 * MEGABYTE - 4):
            assert storage[begin : begin + 4].tolist() == [(begin + i) % 251 for i in range(4)]


def test_storages_that_no_memory_holds_have_bytes_of_their_own() -> None:
    limit = torch.ftm.mem_get_info()[1]
    one, other = (torch.empty(limit, dtype=torch.uint8, device="ftm") for _ in range(2))
    assert abs(one.data_ptr() - other.data_ptr()) >= limit
    one[5:7].untyped_storage()  # nothing is read of it


def test_a_storage_longer_than_its_elements() -> None:
    """Ten bytes; a view has eight of them as two numbers."""
    for make in (_bytes, _pending):

        def changed(device: str, make: Callable[..., Tensor] = make) -> list[Any]:
            tensor = make(device, 10)
            seen = tensor[:8].view(torch.int32)
            seen.add_(1)
            return [seen.tolist(), tensor.tolist()]

        assert changed("ftm") == changed("cpu")


def test_a_slice_keeps_what_it_is_of() -> None:
    part = _pending("ftm").untyped_storage()[4:8]
    others = [_bytes("ftm") for _ in range(8)]
    assert part.tolist() == [5, 6, 7, 8]
    assert len(others) == 8


def test_a_slice_is_not_resized() -> None:
    part = _bytes("ftm").untyped_storage()[4:8]
    with pytest.raises(RuntimeError, match="not resizable"):
        part.resize_(100)
    with pytest.raises(RuntimeError, match="not resizable"):
        _of(part, torch.uint8).resize_(100)


def test_lazy_clones() -> None:
    def changed(device: str) -> list[Any]:
        x = torch.arange(6.0, device=device).reshape(2, 3)
        results = []
        for source in (x, x.t(), x * 2, x[:, 1]):
            clone = torch._lazy_clone(source)
            before = clone.tolist()
            clone.add_(1)
            source.mul_(3)
            results.append(
                (
                    before,
                    clone.tolist(),
                    source.tolist(),
                    clone.stride(),
                    clone.storage_offset(),
                    clone._is_view(),
                )
            )
        leaf = torch.ones(3, device=device, requires_grad=True)
        torch._lazy_clone(leaf).mul(2).sum().backward()
        return [results, leaf.grad.tolist()]

    assert changed("ftm") == changed("cpu")


def test_copies_of_one_element_of_any_stride() -> None:
    # the reference executor leaves it with a stride of 0
    one = torch.tensor(2.0).to("ftm").repeat(1)
    assert copy.deepcopy(one).tolist() == [2.0]


def _strided(device: str) -> list[Tensor]:
    x = torch.arange(12.0, device=device)
    return [
        x[3:3:2],
        x.view(3, 4).t(),
        x[::2],
        x.view(3, 4)[:, ::2],
        x.view(1, 12)[:, ::3],
        x.view(3, 4)[:0].t(),
        x[:1].expand(3, 4),
    ]


def test_a_new_storage_keeps_strides_of_equal_sizes() -> None:
    def laid_out(device: str) -> list[Any]:
        def storage() -> torch.UntypedStorage:
            return torch.ones(12, device=device).untyped_storage()

        changes: list[Callable[[Tensor], Tensor]] = [
            lambda x: x.set_(),
            lambda x: x.set_(storage()),
            lambda x: x.set_(torch.ones(4, 3, device=device)),
            lambda x: x.set_(storage(), 0, x.shape),
            lambda x: x.set_(storage(), 0, (4, 3)),
            lambda x: x.set_(storage(), 0, (3, 4), (1, 3)),
        ]
        layouts = []
        for change in changes:
            for x in _strided(device):
                change(x)
                layouts.append(
                    (
                        x.shape,
                        x.stride(),
                        x.storage_offset(),
                        x.untyped_storage().nbytes(),
                        x.tolist(),
                    )
                )
        return layouts

    assert laid_out("ftm") == laid_out("cpu")


def test_each_dtype_has_a_storage_type() -> None:
    for dtype, name in torch.storage._dtype_to_storage_type_map().items():
        if (
            dtype.is_floating_point
            or dtype.is_complex
            or dtype in (torch.bool, torch.uint8, torch.int64)
        ):
            x = torch.ones(3, dtype=dtype, device="ftm")
            assert x.storage_type() is getattr(torch.ftm, name)
            assert isinstance(x.storage(), x.storage_type()) and not isinstance(
                x.cpu().storage(), x.storage_type()
            )
            assert x.storage().type() == f"torch.ftm.{name}"
    assert torch.ftm.FloatStorage(3).device.type == "ftm"
