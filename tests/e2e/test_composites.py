"""Ops that reach the device as one call and are recorded as others: native, and equal to the
CPU's."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import ftm_lazy


def numbers(device: str) -> Tensor:
    return torch.arange(24.0).reshape(2, 3, 4).to(device)


def cummax_out(device: str) -> tuple[Tensor, Tensor]:
    values, places = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
    torch.cummax(numbers(device), 1, out=(values, places))
    return values, places


def gradient_of_index(device: str) -> tuple[Tensor, ...]:
    table = numbers(device).requires_grad_()
    return torch.autograd.grad(table[torch.tensor([0, 1, 1])].sum(), table)


def written_by_mask(device: str) -> Tensor:
    table = numbers(device)
    table[table > 5] = torch.arange(18.0).to(device)
    return table


def conjugated_product(device: str) -> Tensor:
    matrix = torch.complex(torch.arange(6.0), torch.ones(6)).reshape(2, 3).to(device)
    return matrix.mH @ matrix


def normed_weight(device: str, dim: int) -> list[Tensor]:
    v = (numbers(device) + 1).requires_grad_()
    g = (
        torch.linspace(1, 2, v.shape[dim])
        .reshape([-1 if d == dim % 3 else 1 for d in range(3)])
        .to(device)
        .requires_grad_()
    )
    weight = torch._weight_norm(v, g, dim)
    return [weight, *torch.autograd.grad(weight.pow(3).sum(), (v, g))]


def conjugated_into_a_row(device: str) -> Tensor:
    rows = torch.zeros(2, 4).to(device)
    torch.conj_physical(numbers(device)[0, 0], out=rows[0])
    return rows


COMPOSITES: dict[str, Callable[[str], object]] = {
    "conj_physical of real numbers": conjugated_into_a_row,
    "diag_embed": lambda d: torch.diag_embed(numbers(d)),
    "pixel_shuffle": lambda d: nn.functional.pixel_shuffle(
        torch.arange(64.0).reshape(1, 4, 4, 4).to(d), 2
    ),
    "channel_shuffle": lambda d: nn.functional.channel_shuffle(
        torch.arange(16.0).reshape(1, 4, 2, 2).to(d), 2
    ),
    "narrow_copy": lambda d: torch.narrow_copy(numbers(d), 1, 1, 2),
    "unbind_copy": lambda d: torch.unbind_copy(numbers(d)),
    "unfold_copy": lambda d: torch.unfold_copy(numbers(d), 1, 2, 1),
    "split_with_sizes_copy": lambda d: torch.split_with_sizes_copy(numbers(d), [1, 2], 1),
    "diagonal_scatter": lambda d: torch.diagonal_scatter(numbers(d)[0], torch.ones(3).to(d)),
    "as_strided_scatter": lambda d: torch.as_strided_scatter(
        numbers(d)[0], torch.ones(2, 2).to(d), (2, 2), (1, 2)
    ),
    "new_empty_strided": lambda d: numbers(d).new_empty_strided((2, 3), (3, 1)).fill_(1),
    "cummax out": cummax_out,
    "logcumsumexp": lambda d: torch.logcumsumexp(numbers(d), 0),
    "gradient of an index": gradient_of_index,
    "write by mask": written_by_mask,
    "weight_norm, first dim": lambda d: normed_weight(d, 0),
    "weight_norm, middle dim": lambda d: normed_weight(d, 1),
    "weight_norm, last dim": lambda d: normed_weight(d, 2),
    "product of a conjugated matrix": conjugated_product,
    "out= says the dtype": lambda d: torch.cumsum(
        numbers(d).int(), 0, out=torch.empty(2, 3, 4, device=d).double()
    ),
    "no meta kernel": lambda d: torch.histogram(numbers(d), 4),
}


def assert_native(before: dict[str, int]) -> None:
    after = ftm_lazy.metrics.counters()
    grown = {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}
    assert not [
        name for name in grown if name.startswith("fallback::") or name == "compile_failures"
    ], grown


@pytest.mark.parametrize("name", COMPOSITES)
def test_composite(name: str) -> None:
    before = ftm_lazy.metrics.counters()
    actual, expected = tree_leaves(COMPOSITES[name]("ftm")), tree_leaves(COMPOSITES[name]("cpu"))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.cpu(), e)
    assert_native(before)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.Adam, {"weight_decay": 0.1}),
        (torch.optim.Adam, {"amsgrad": True, "maximize": True}),
        (torch.optim.AdamW, {"weight_decay": 0.1}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.Adagrad, {"lr_decay": 0.1}),
    ],
)
def test_fused_optimizer(optimizer: type[torch.optim.Optimizer], options: dict[str, float]) -> None:
    def trained(device: str) -> list[Tensor]:
        torch.manual_seed(0)
        parameters = [
            nn.Parameter(torch.randn(3, 4).to(device)),
            nn.Parameter(torch.randn(5).to(device)),
        ]
        stepper = optimizer(parameters, lr=0.1, fused=True, **options)
        for step in range(4):
            for parameter in parameters:
                parameter.grad = parameter.detach() * 0.3 + step
            stepper.step()
        return [parameter.detach().cpu() for parameter in parameters]

    before = ftm_lazy.metrics.counters()
    torch.testing.assert_close(trained("ftm"), trained("cpu"))
    assert_native(before)


def test_gradient_scaler() -> None:
    def scaled(device: str) -> list[float]:
        parameter = nn.Parameter(torch.ones(3).to(device))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)
        seen = []
        for factor in (0.0, 1.0, float("inf"), 3.0, 4.0, 5.0):
            optimizer.zero_grad()
            scaler.scale((parameter * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            seen += [scaler.get_scale(), *parameter.tolist()]
        return seen

    before = ftm_lazy.metrics.counters()
    assert scaled("ftm") == pytest.approx(scaled("cpu"))
    assert_native(before)


@pytest.mark.parametrize("way", ["pickle", "legacy file"])
def test_tensors_pickle_with_their_sharing(way: str) -> None:
    whole = numbers("ftm")
    if way == "pickle":
        again, part = pickle.loads(pickle.dumps([whole, whole[1]]))
    else:
        file = io.BytesIO()
        torch.save([whole, whole[1]], file, _use_new_zipfile_serialization=False)
        file.seek(0)
        again, part = torch.load(file)
        part.add_(1)
        assert torch.equal(again[1].cpu(), part.cpu())
        part.sub_(1)
    assert again.device.type == part.device.type == "ftm"
    assert torch.equal(again.cpu(), numbers("cpu")) and torch.equal(part.cpu(), numbers("cpu")[1])


def test_writing_over_what_is_read_is_refused() -> None:
    table = numbers("ftm")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.gather(table, 0, torch.zeros(2, 3, 4, dtype=torch.int64, device="ftm"), out=table)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.masked_select(table, table > 3, out=table[0])


@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True, "activation": "gelu"}, {"enable_nested_tensor": False}]
)
@pytest.mark.parametrize("mask", [None, "padding", "source"])
def test_transformer_encoder_in_evaluation(options: dict[str, object], mask: str | None) -> None:
    """The fast path, native. The encoder would make nested tensors of padded batches: ftm has none,
    and it goes on with the padding."""
    torch.manual_seed(0)
    kind = {name: options[name] for name in options if name != "enable_nested_tensor"}
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, **kind)
    encoder = nn.TransformerEncoder(
        layer, 2, enable_nested_tensor=options.get("enable_nested_tensor", True)
    ).eval()
    batch = torch.randn(3, 5, 16)
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]).bool()
    masks = {
        "padding": {"src_key_padding_mask": padding},
        "source": {"mask": torch.ones(5, 5).triu(1).bool()},
    }.get(mask, {})
    with torch.no_grad():
        want = encoder(batch, **masks)
        before = ftm_lazy.metrics.counters()
        got = encoder.to("ftm")(
            batch.to("ftm"), **{name: value.to("ftm") for name, value in masks.items()}
        )
        assert_native(before)
    kept = ~padding if mask == "padding" else torch.ones_like(padding)
    torch.testing.assert_close(got.cpu()[kept], want[kept])


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("weights", ["none", "of each head", "mean"])
def test_attention_in_evaluation(same: bool, weights: str) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    query, memory = torch.randn(2, 3, 5, 16)
    options = {"need_weights": weights != "none", "average_attn_weights": weights == "mean"}
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()

    def run(device: str) -> list[Tensor | None]:
        attention.to(device)
        there, key = query.to(device), (query if same else memory).to(device)
        with torch.no_grad():
            found = attention(
                there, there if same else key, there if same else key, padding.to(device), **options
            )
        return [None if tensor is None else tensor.cpu()[:2] for tensor in found]

    want, before = run("cpu"), ftm_lazy.metrics.counters()
    for got, expected in zip(run("ftm"), want, strict=True):
        torch.testing.assert_close(got, expected)
    assert_native(before)


@pytest.mark.parametrize(("shape", "kind"), [((3, 4), 0), ((2, 4), 1), ((2, 2, 3, 4), 2)])
def test_masked_softmax(shape: tuple[int, ...], kind: int) -> None:
    """What is masked whole has no weights; kernels of the CPU say NaN there."""
    torch.manual_seed(0)
    scores, mask = torch.randn(2, 2, 3, 4), torch.zeros(shape).bool()
    mask[0], mask[1, 1:] = True, True
    got = torch._masked_softmax(scores.to("ftm"), mask.to("ftm"), 3, kind).cpu()
    hidden = scores.masked_fill(mask[:, None, None] if kind == 1 else mask, -torch.inf)
    torch.testing.assert_close(got, hidden.softmax(3).nan_to_num(0))


@pytest.mark.parametrize(
    ("loss", "target"),
    [(nn.functional.multilabel_margin_loss, [1, 2, -1, 0]), (nn.functional.multi_margin_loss, 1)],
)
def test_the_loss_of_one_sample_has_no_dimension(
    loss: Callable[..., Tensor], target: list[int] | int
) -> None:
    scores = torch.tensor([0.3, -0.2, 0.9, 0.1])

    def run(device: str) -> list[Tensor]:
        leaf = scores.clone().to(device).requires_grad_()
        value = loss(leaf, torch.tensor(target).to(device), reduction="none")
        value.backward()
        return [value.detach().cpu(), leaf.grad.cpu()]

    for got, want in zip(run("ftm"), run("cpu"), strict=True):
        torch.testing.assert_close(got, want)
