"""``torch.compile(model)`` without ``backend=``: graphs with tensors on ftm go to our compiler,
others to Inductor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx
from torch import nn

from ftm_lazy.frontends import dynamo


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.fx.GraphModule]]:
    """The graphs that came to the backend ``ftm``."""
    graphs: list[torch.fx.GraphModule] = []
    backend = dynamo.backend

    def count(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
        graphs.append(graph)
        return backend(graph, example_inputs)

    monkeypatch.setattr(dynamo, "backend", count)
    torch._dynamo.reset()
    yield graphs
    torch._dynamo.reset()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))


def resnet() -> nn.Module:
    from transformers import ResNetConfig, ResNetModel

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = ResNetModel(
                ResNetConfig(
                    embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
                )
            )

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.model(images).pooler_output

    return Pooled()


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    sizes = {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 32,
        "vocab_size": 50,
    }

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(
                BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            )

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model(tokens).last_hidden_state

    return Last()


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp": (mlp, lambda: torch.randn(5, 4)),
    "resnet": (resnet, lambda: torch.randn(2, 3, 32, 32)),
    "bert": (bert, lambda: torch.randint(50, (2, 7))),
}

OPTIONS: list[dict[str, Any]] = [
    {},
    {"fullgraph": True},
    {"mode": "reduce-overhead"},
    {"mode": "max-autotune"},
    {"dynamic": True},
    {"options": {"epilogue_fusion": True}},
    {"backend": "inductor"},
]


def check_training(
    make: Callable[[], nn.Module], sample: Callable[[], torch.Tensor], **options: Any
) -> None:
    torch.manual_seed(0)
    expected = make()
    found = copy.deepcopy(expected).to("ftm")
    call = torch.compile(found, **options)
    for _ in range(2):
        x = sample()
        y, z = expected(x), call(x.to("ftm"))
        assert z.device.type == "ftm"
        torch.testing.assert_close(z.cpu(), y, rtol=1e-3, atol=1e-4)
        y.square().mean().backward()
        z.square().mean().backward()
    for (name, a), b in zip(expected.named_parameters(), found.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=5e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("model", MODELS)
def test_models(compiled: list[torch.fx.GraphModule], model: str) -> None:
    check_training(*MODELS[model])
    assert compiled


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(compiled: list[torch.fx.GraphModule], options: dict[str, Any]) -> None:
    check_training(*MODELS["mlp"], **options)
    assert compiled


def test_sizes_that_change(compiled: list[torch.fx.GraphModule]) -> None:
    call = torch.compile(lambda x: x.sin().sum(0))
    for n in range(3, 9):
        x = torch.randn(n, 4)
        torch.testing.assert_close(call(x.to("ftm")).cpu(), x.sin().sum(0))
    assert len(compiled) == 2  # one for the first size, one for all others


def test_tensors_on_both_devices(compiled: list[torch.fx.GraphModule]) -> None:
    call = torch.compile(lambda x, scale, other: (x * scale, other + 1), fullgraph=True)
    x, scale, other = torch.randn(3, 4), torch.tensor(2.5), torch.randn(2)
    scaled, added = call(x.to("ftm"), scale, other)
    assert (scaled.device.type, added.device.type) == ("ftm", "cpu")
    torch.testing.assert_close(scaled.cpu(), x * scale)
    torch.testing.assert_close(added, other + 1)
    assert len(compiled) == 1


def test_device_only_inside_of_the_graph(compiled: list[torch.fx.GraphModule]) -> None:
    moved = torch.compile(lambda x: (x.to("ftm") * 2).cpu(), fullgraph=True)
    made = torch.compile(lambda n: torch.ones(n, device="ftm") * 2, fullgraph=True)
    torch.testing.assert_close(moved(torch.ones(3)), torch.full((3,), 2.0))
    torch.testing.assert_close(made(3).cpu(), torch.full((3,), 2.0))
    branch = torch.compile(
        lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    )
    torch.testing.assert_close(branch(torch.ones(2, device="ftm")).cpu(), torch.full((2,), 2.0))
    assert len(compiled) == 3


def test_a_graph_on_the_cpu_goes_to_inductor(
    compiled: list[torch.fx.GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[Any] = []

    def keep(graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        inner.append(graph)
        return graph

    torch._inductor.compile_fx.compile_fx(
        torch.fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(2)], inner_compile=keep
    )
    assert inner and not compiled


def test_compiled_optimizer(compiled: list[torch.fx.GraphModule]) -> None:
    torch.manual_seed(0)
    models = [mlp()]
    models.append(copy.deepcopy(models[0]).to("ftm"))
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in models]
    steps = [optimizers[0].step, torch.compile(lambda: optimizers[1].step())]
    for _ in range(2):
        x = torch.randn(5, 4)
        for model, step in zip(models, steps, strict=True):
            model.zero_grad()
            model(x.to(next(model.parameters()).device)).sum().backward()
            step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-3, atol=1e-3)


def test_aot_inductor_is_refused() -> None:
    exported = torch.export.export(mlp().to("ftm"), (torch.ones(2, 4, device="ftm"),))
    with pytest.raises(NotImplementedError, match="ftm_lazy.package"):
        torch._inductor.aoti_compile_and_package(exported)
