"""Families of programs: for many sizes and places they give what the CPU gives, and few of them are
compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ftm_lazy

pytestmark = pytest.mark.usefixtures("empty_caches")

R = torch.randn


SIZES = (20, 33, 57, 64, 48, 17, 3, 7, 12, 1, 2)
"""Two classes, what is at their edges, and what is equal to other extents of the tests once."""


def _gradients(call: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = call(*leaves)
    out.square().sum().backward()
    return [out, *(x.grad for x in leaves if x.grad is not None)]


def _assigned(n: int, device: str) -> Tensor:
    x = torch.zeros(n + 3, 5, device=device)
    x[1 : n + 1] = R(n, 5).to(device)
    x[:, 2] = 7
    x[n] += 1
    return x


def _filled(n: int, device: str) -> Tensor:
    """Values put where a mask is, which are counted in 32 bits."""
    x, mask = R(n).to(device), torch.arange(n).to(device) % 2 == 0
    x[mask] = torch.arange((n + 1) // 2).to(device).float()
    return x


Case = Callable[[int, str], list[Tensor]]
CASES: dict[str, tuple[int, Case]] = {
    "elementwise": (
        4,
        lambda n, d: [
            R(n).to(d).clamp(-0.5, 0.5).exp().log1p().sigmoid(),
            R(n, 4).to(d).bfloat16().float() * 2,
        ],
    ),
    "broadcasting": (
        5,
        lambda n, d: [R(n, 1).to(d) + R(1, n).to(d), R(2, n, 4).to(d) - R(n, 4).to(d)],
    ),
    "means": (6, lambda n, d: [R(n, 5).to(d).mean(0), R(3, n).to(d).var(1), R(n, n).to(d).mean()]),
    "softmax": (5, lambda n, d: _gradients(lambda x: torch.softmax(x, 1), R(4, n).to(d))),
    "layer_norm": (5, lambda n, d: _gradients(lambda x: F.layer_norm(x, (n,)), R(4, n).to(d))),
    "products": (6, lambda n, d: _gradients(torch.matmul, R(n, 6).to(d), R(6, n).to(d))),
    "inner": (6, lambda n, d: _gradients(torch.matmul, R(4, n).to(d), R(n, 5).to(d))),
    "batches of products": (
        5,
        lambda n, d: _gradients(torch.bmm, R(n, 3, 4).to(d), R(n, 4, 5).to(d)),
    ),
    "attention": (
        6,
        lambda n, d: _gradients(
            lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), R(2, 2, n, 8).to(d)
        ),
    ),
    "cross entropy": (
        7,
        lambda n, d: _gradients(
            lambda x: F.cross_entropy(x, torch.arange(n).to(d) % 7), R(n, 7).to(d)
        ),
    ),
    "cumulative": (5, lambda n, d: [R(n, 3).to(d).cumsum(0), R(3, n).to(d).cumsum(1)]),
    "extremes": (
        6,
        lambda n, d: [*R(n, 4).to(d).max(0), R(3, n).to(d).argmax(1), R(n).to(d).median()],
    ),
    "sorting": (
        6,
        lambda n, d: [*torch.sort(R(3, n).to(d), 1), torch.topk(R(3, n + 3).to(d), 3)[0]],
    ),
    "gathers": (
        6,
        lambda n, d: [
            R(10, 4).to(d)[torch.arange(n).to(d) % 10],
            R(n, 4).to(d)[torch.tensor([0, n - 1, n // 2]).to(d)],
        ],
    ),
    "scatters": (
        6,
        lambda n, d: [
            torch.zeros(10, 4, device=d).index_add(0, torch.arange(n).to(d) % 10, R(n, 4).to(d))
        ],
    ),
    "joining": (
        6,
        lambda n, d: [
            torch.cat([R(n, 3).to(d), R(2 * n, 3).to(d)]),
            torch.stack([R(n, 3).to(d), R(n, 3).to(d)], 1),
        ],
    ),
    "views": (
        5,
        lambda n, d: [
            R(n, 12).to(d).view(n, 3, 4).transpose(1, 2).reshape(n, 12) + 1,
            R(n + 3, 4).to(d)[1:-1, ::2] * 2,
        ],
    ),
    "creation": (
        6,
        lambda n, d: [
            torch.arange(n, device=d) * 2,
            torch.eye(n, device=d),
            torch.tril(R(n, n).to(d)),
            torch.linspace(0, 1, n, device=d),
        ],
    ),
    "searches": (
        6,
        lambda n, d: [
            torch.searchsorted(torch.arange(n).float().to(d), R(9).to(d) * n),
            F.embedding_bag(
                torch.arange(3 * n).to(d) % 10, R(10, 4).to(d), torch.arange(0, 3 * n, 3).to(d)
            ),
            torch.histc(R(7).to(d), 5) + R(n).to(d).sum(),
        ],
    ),
    "masks": (
        6,
        lambda n, d: [
            _filled(n, d),
            torch.where(R(n, 4).to(d) > 0, 1, 2),
            torch.nonzero(torch.arange(n).to(d) % 3),
        ],
    ),
    "writes": (7, lambda n, d: [_assigned(n, d)]),
    "flips": (
        6,
        lambda n, d: [
            R(n, 3).to(d).flip(0),
            torch.roll(R(n, 4).to(d), 1, 0),
            F.pad(R(3, n).to(d), (1, 2)),
        ],
    ),
    "borders": (
        8,
        lambda n, d: [
            *_gradients(lambda x: F.pad(x, (2, 1), mode="reflect"), R(1, 2, n + 3).to(d)),
            *_gradients(lambda x: F.pad(x, (2, 0, 1, 3), mode="replicate"), R(1, 2, 4, n).to(d)),
        ],
    ),
}


def _counted(run: Callable[[], object]) -> dict[str, int]:
    before = ftm_lazy.metrics.counters()
    run()
    after = ftm_lazy.metrics.counters()
    return {
        name: after[name] - before[name]
        for name in ("compiles", "instances", "compile_failures", "op_by_op_runs")
    }


@pytest.mark.parametrize("name", CASES)
def test_every_size_is_right_and_few_are_compiled(name: str) -> None:
    most, case = CASES[name]

    def run() -> None:
        for n in SIZES:
            torch.manual_seed(n)
            expected = case(n, "cpu")
            torch.manual_seed(n)
            for got, wanted in zip(case(n, "ftm"), expected, strict=True):
                torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5, equal_nan=True)

    counts = _counted(run)
    programs = counts["compiles"] / len(case(5, "cpu"))
    assert programs <= most, counts
    assert counts["instances"] >= 3
    assert counts["compile_failures"] == counts["op_by_op_runs"] == 0


def test_places_are_data() -> None:
    table = torch.zeros(50, 8, device="ftm")

    def run() -> None:
        for i in range(50):
            table[i, 0] = float(i)
            assert table[i, 0].item() == i

    assert _counted(run)["compiles"] <= 3


def test_a_growing_prefix() -> None:
    x = torch.arange(100.0)
    on_device = x.to("ftm")

    def run() -> None:
        for i in range(1, 65):
            assert on_device[:i].sum().item() == x[:i].sum().item()

    assert _counted(run)["compiles"] <= 4


def test_a_size_of_one_is_general_in_the_others() -> None:
    """Caches begin with one token, for prompts of every length."""

    def run(a: int, b: int) -> None:
        x, y = R(a, 8), R(b, 8)
        got = torch.cat([x.to("ftm") * 2, y.to("ftm").exp()]).sum(1)
        torch.testing.assert_close(got.cpu(), torch.cat([x * 2, y.exp()]).sum(1))

    for a in (1, 2, 3, 4):
        run(a, 5)
    for b in (9, 14, 11, 6):
        counts = _counted(lambda b=b: run(1, b))
        assert counts["compiles"] == (b == 9), b


def test_a_single_object_needs_no_program_of_its_own() -> None:
    """The loss of a detector. Each of two images has some objects."""
    boxes = R(2, 20, 4)
    on_device = boxes.to("ftm").requires_grad_()

    def loss(boxes: Tensor, targets: list[Tensor], chosen: list[Tensor]) -> Tensor:
        device = boxes.device
        images = torch.cat([torch.full_like(c, k) for k, c in enumerate(chosen)]).to(device)
        found = boxes[images, torch.cat(chosen).to(device)]
        distances = F.l1_loss(found, torch.cat([t.to(device) for t in targets]), reduction="none")
        return distances.sum() / len(images) + (found[:, 2:] - found[:, :2]).square().mean()

    def run(*counts: tuple[int, int]) -> Callable[[], None]:
        def compare() -> None:
            for pair in counts:
                targets = [R(n, 4) for n in pair]
                chosen = [torch.randperm(20)[:n] for n in pair]
                expected = boxes.clone().requires_grad_()
                loss(expected, targets, chosen).backward()
                on_device.grad = None
                loss(on_device, targets, chosen).backward()
                torch.testing.assert_close(on_device.grad.cpu(), expected.grad)

        return compare

    assert _counted(run((4, 11), (3, 6), (12, 3), (5, 5)))["compiles"] <= 4
    assert _counted(run((1, 5), (7, 1), (1, 1), (2, 1), (1, 12)))["compiles"] == 0


def test_any_number_of_parts_along_any_dimension() -> None:
    """Once a second number has come, groups of 2, 4, 16 and 64 are put together: also single rows,
    and along another dimension."""
    parts = [R(1, 16) for _ in range(140)]
    on_device = [part.to("ftm") for part in parts]

    def run(count: int, dim: int) -> None:
        torch.testing.assert_close(
            torch.cat(on_device[:count], dim).cpu(), torch.cat(parts[:count], dim)
        )

    assert _counted(lambda: [run(20, 0), run(12, 0)])["compiles"] <= 3
    # the first group of a size, and the first number along a dimension, which is one program
    first = {(70, 0), (33, 0), (9, 1)}
    for count, dim in (
        (7, 0),
        (70, 0),
        (33, 0),
        (9, 1),
        (20, 1),
        (64, 1),
        (2, 0),
        (139, 1),
        (99, 0),
    ):
        counts = _counted(lambda count=count, dim=dim: run(count, dim))
        assert counts["compiles"] <= ((count, dim) in first), (count, dim)


def test_episodes_of_any_length() -> None:
    """A loop that is cut into iterations when it is launched is not cut at other places because it
    is long."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).to(
        "ftm"
    )
    on_cpu = copy.deepcopy(net).cpu()

    def loss_of(net: nn.Module, states: Tensor, device: str) -> Tensor:
        scores = []
        for state in states:
            scores.append(torch.tanh(net(state.to(device))).log_softmax(-1)[0])
            scores[-1].item()
        return torch.stack([-score * 0.5 for score in scores]).sum()

    def run(steps: int) -> None:
        states = R(steps, 4)
        for each, device in ((net, "ftm"), (on_cpu, "cpu")):
            each.zero_grad()
            loss_of(each, states, device).backward()
        torch.testing.assert_close(
            net[0].weight.grad.cpu(), on_cpu[0].weight.grad, rtol=1e-4, atol=1e-4
        )

    for steps in (12, 17, 20):
        run(steps)
    # whose backward passes are longer than loops that are cut while they are recorded
    for steps in (60, 90, 45):
        assert _counted(lambda steps=steps: run(steps))["compiles"] == 0, steps


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, 4, c // 4).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(c, 2)
        )
        return x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        )


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(17, 32), nn.Embedding(64, 32)
        self.blocks, self.head = nn.Sequential(_Block(32), _Block(32)), nn.Linear(32, 17)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(
            self.blocks(
                self.tokens(tokens)
                + self.places(torch.arange(tokens.shape[1], device=tokens.device))
            )
        )


def test_generation_compiles_for_classes_of_lengths() -> None:
    torch.manual_seed(0)
    models = {"cpu": _Model().eval()}
    models["ftm"] = copy.deepcopy(models["cpu"]).to("ftm")
    made = {}

    @torch.no_grad()
    def generate(device: str) -> None:
        tokens = torch.zeros(1, 1, dtype=torch.long, device=device)
        for _ in range(40):
            last = models[device](tokens)[:, -1, :]
            tokens = torch.cat((tokens, last.argmax(-1, keepdim=True)), 1)
        made[device] = tokens.tolist()

    generate("cpu")
    assert _counted(lambda: generate("ftm"))["compiles"] <= 5
    assert made["ftm"] == made["cpu"]


def test_training_on_varying_lengths_follows_the_cpu() -> None:
    torch.manual_seed(0)
    models = {"cpu": _Model()}
    models["ftm"] = copy.deepcopy(models["cpu"]).to("ftm")
    losses: dict[str, list[float]] = {"cpu": [], "ftm": []}

    def train(device: str) -> None:
        optimizer = torch.optim.AdamW(models[device].parameters(), lr=1e-3)
        for step, length in enumerate((20, 33, 57, 21, 60, 44, 38, 29)):
            torch.manual_seed(step)
            tokens = torch.randint(0, 17, (3, length)).to(device)
            loss = F.cross_entropy(
                models[device](tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())

    train("cpu")
    assert _counted(lambda: train("ftm"))["compiles"] <= 4
    assert losses["ftm"] == pytest.approx(losses["cpu"], rel=1e-4)


class _Reader(nn.Module):
    """A text's attention over itself, and what it says of the last word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.block, self.head = nn.Embedding(50, 64), _Block(64), nn.Linear(64, 50)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.block(self.words(words)))[:, -1]


def test_texts_are_general_at_first_sight() -> None:
    """Also of lengths that are the model's own numbers: 16 is the width of a head, 64 that of the
    model."""
    torch.manual_seed(0)
    model = _Reader()
    on_device = copy.deepcopy(model).to("ftm")

    def read(*shape: int) -> None:
        words = torch.randint(0, 50, shape)
        with torch.no_grad():
            torch.testing.assert_close(
                on_device(words.to("ftm")).cpu(), model(words), rtol=1e-4, atol=1e-5
            )

    assert _counted(lambda: read(3, 7))["compiles"] == 1
    for length in (9, 16, 33, 64, 2):
        assert _counted(lambda length=length: read(5, length))["compiles"] == 0, length
    counts = _counted(lambda: [read(1, n) for n in (5, 16, 9)])
    assert counts["compiles"] <= 2, "a batch of one is another kind of trace"


def test_training_is_not_general_at_first_sight() -> None:
    torch.manual_seed(0)
    model = _Reader().to("ftm")
    before = ftm_lazy.metrics.counters()["first_sight_programs"]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        loss = model(torch.randint(0, 50, (3, 11)).to("ftm")).logsumexp(1).sum()
        loss.item()  # the gradients are a program of their own
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert ftm_lazy.metrics.counters()["first_sight_programs"] == before


def _routed(net: nn.ModuleList, x: Tensor, which: Tensor) -> Tensor:
    """Rows that go through the network of their own each, as many as there happen to be, which
    Python knows."""
    order, sizes = which.argsort(stable=True), which.bincount(minlength=len(net) - 1).tolist()
    rows = net[-1](x)[order.to(x.device)]
    rows.sum().item()  # the loss is in another program
    return (
        torch.cat([expert(part) for expert, part in zip(net, rows.split(sizes), strict=False)])
        .square()
        .mean()
    )


def test_experts_that_train_are_general_at_first_sight() -> None:
    """Also where as many rows as there are columns, or none, or one go to an expert."""
    torch.manual_seed(0)
    nets = {"cpu": nn.ModuleList(nn.Linear(8, 8) for _ in range(4))}
    nets["ftm"] = copy.deepcopy(nets["cpu"]).to("ftm")
    optimizers = {device: torch.optim.SGD(net.parameters(), 0.1) for device, net in nets.items()}

    def step(sizes: tuple[int, ...]) -> None:
        x, which = (
            R(24, 8),
            torch.arange(3).repeat_interleave(torch.tensor(sizes))[torch.randperm(24)],
        )
        losses = []
        for device, net in nets.items():
            optimizers[device].zero_grad()
            loss = _routed(net, x.to(device), which)
            loss.backward()
            optimizers[device].step()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)

    assert _counted(lambda: step((9, 9, 6)))["compiles"] == 2
    for sizes in ((8, 8, 8), (11, 3, 10), (2, 20, 2), (9, 9, 6), (4, 4, 16)):
        assert _counted(lambda sizes=sizes: step(sizes))["compiles"] == 0, sizes
    for sizes in ((1, 13, 10), (0, 20, 4)):
        step(sizes)
    for (name, one), other in zip(
        nets["cpu"].named_parameters(), nets["ftm"].parameters(), strict=True
    ):
        torch.testing.assert_close(
            other.detach().cpu(), one.detach(), rtol=1e-4, atol=1e-5, msg=name
        )


@pytest.mark.parametrize(
    ("kind", "how", "texts", "most"),
    [
        ("GPT2", {}, 1, 4),
        ("Llama", {"cache_implementation": "static", "disable_compile": True}, 1, 4),
        ("GPT2", {"num_beams": 3}, 1, 5),
        ("GPT2", {"num_beams": 3}, 3, 6),
    ],
    ids=["greedy", "static cache", "beams", "beams of several texts"],
)
def test_generated_texts_need_a_program_for_each_kind_of_step(
    kind: str, how: dict[str, Any], texts: int, most: int
) -> None:
    """Whatever the length of the prompt and the number of new tokens; of several texts, one has
    padding before it."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shared = {
        "vocab_size": 96, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3,
        "bos_token_id": 0, "eos_token_id": None,
    }  # fmt: skip
    own = (
        {"intermediate_size": 64, "num_key_value_heads": 3}
        if kind == "Llama"
        else {"n_positions": 64}
    )
    model = getattr(transformers, f"{kind}ForCausalLM" if kind == "Llama" else f"{kind}LMHeadModel")
    model = model(getattr(transformers, f"{kind}Config")(**shared, **own)).eval()
    on_device = copy.deepcopy(model).to("ftm")

    def run() -> None:
        for length, tokens in ((9, 13), (5, 40), (14, 4), (6, 21)):
            prompt, mask = (
                torch.randint(1, 96, (texts, length)),
                torch.ones(texts, length, dtype=torch.long),
            )
            mask[1:2, :2] = 0
            settings = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, **how}
            expected = model.generate(prompt, attention_mask=mask, **settings)
            assert (
                on_device.generate(
                    prompt.to("ftm"), attention_mask=mask.to("ftm"), **settings
                ).tolist()
                == expected.tolist()
            )

    found = _counted(run)["compiles"]
    assert found <= most, found


def test_sizes_that_are_the_same_by_chance_cost_few_programs() -> None:
    """As many beams as tokens and as rows of the caches: each takes an attempt or two, and no step
    a program of its own."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shared = {
        "vocab_size": 96,
        "hidden_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
    }
    config = transformers.LlamaConfig(
        **shared, intermediate_size=64, bos_token_id=0, eos_token_id=None
    )
    model = transformers.LlamaForCausalLM(config).eval()
    on_device = copy.deepcopy(model).to("ftm")

    def run() -> None:
        for length, tokens in ((3, 2), (3, 12), (7, 20)):
            prompt = torch.randint(1, 96, (1, length))
            settings = {
                "max_new_tokens": tokens,
                "do_sample": False,
                "pad_token_id": 0,
                "num_beams": 3,
            }
            assert (
                on_device.generate(prompt.to("ftm"), **settings).tolist()
                == model.generate(prompt, **settings).tolist()
            )

    assert _counted(run)["compiles"] <= 12  # of 34 steps


def test_assisted_generation_crops_caches_with_few_programs() -> None:
    """How many candidates hold differs from step to step, and with it what is left of the
    caches."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)

    def gpt2(layers: int) -> Any:
        config = transformers.GPT2Config(
            vocab_size=96,
            n_positions=64,
            n_embd=48,
            n_layer=layers,
            n_head=3,
            bos_token_id=0,
            eos_token_id=None,
        )
        return transformers.GPT2LMHeadModel(config).eval()

    models = {"cpu": (gpt2(2), gpt2(1))}
    models["ftm"] = tuple(copy.deepcopy(model).to("ftm") for model in models["cpu"])

    def run(length: int) -> None:
        prompt, made = torch.randint(1, 96, (1, length)), []
        for device, (model, assistant) in models.items():
            settings = {
                "max_new_tokens": 20,
                "do_sample": False,
                "pad_token_id": 0,
                "assistant_model": assistant,
            }
            made.append(model.generate(prompt.to(device), **settings).tolist())
        assert made[1] == made[0]

    assert _counted(lambda: [run(length) for length in (5, 9, 14)])["compiles"] <= 30
