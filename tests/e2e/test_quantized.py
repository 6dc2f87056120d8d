"""Quantized tensors: the integers are the CPU's, the work is done in recorded programs."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import ftm_lazy
from e2e.counting import fallbacks
from e2e.saturation import LARGEST_WEIGHT, configuration

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.quantize_per_tensor", "ignore:torch.ao.quantization", "ignore:must run observer"
)

DTYPES = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
ODD = torch.tensor(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        3e9,
        -3e9,
        2147483520.0,
        2e9,
        -1e30,
        0.5,
        1.5,
        2.5,
        -0.5,
        -0.0,
        127.5,
    ]
)


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """The CPU's products as fbgemm computes them: the others differ in ties, or round the bias."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    torch.manual_seed(0)
    yield
    torch.backends.quantized.engine = before
    assert not ftm_lazy.metrics.counters().get("op_by_op_runs")


def made(
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.quint8,
    scale: float = 0.021,
    zero_point: int = 20,
) -> Tensor:
    """Any integers, on the CPU."""
    plain = DTYPES[dtype]
    bounds = torch.iinfo(torch.int8 if plain == torch.int32 else plain)
    return torch._make_per_tensor_quantized_tensor(
        torch.randint(bounds.min, bounds.max + 1, shape).to(plain), scale, zero_point
    )


def same(found: Tensor, expected: Tensor) -> None:
    """Equal in every integer, parameter, size and stride; of the device and of the CPU."""
    assert found.device.type == "ftm"
    assert found.stride() == expected.stride() or expected.numel() == 0
    assert torch.equal(found.cpu(), expected), (found.cpu(), expected)


SHAPES: dict[str, Callable[[], Tensor]] = {
    "odd": lambda: torch.randn(3, 5, 7) * 3,
    "none": lambda: torch.randn(0, 4),
    "number": lambda: torch.tensor(1.26),
    "transposed": lambda: torch.randn(5, 9).t(),
    "strided": lambda: torch.randn(9, 10)[::2, 1::3],
    "channels last": lambda: torch.randn(2, 3, 5, 4).contiguous(memory_format=torch.channels_last),
    "extremes": lambda: ODD,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_per_tensor(shape: str, dtype: torch.dtype) -> None:
    floats = SHAPES[shape]()
    device = (
        floats.to("ftm")
        if floats.stride() == floats.to("ftm").stride()
        else floats.t().to("ftm").t()
    )
    for scale, zero_point in ((1.0, 3), (0.0371, 0), (0.0021, 120)):
        expected = torch.quantize_per_tensor(floats, scale, zero_point, dtype)
        found = torch.quantize_per_tensor(device, scale, zero_point, dtype)
        same(found, expected)
        assert (found.q_scale(), found.q_zero_point(), found.qscheme()) == (
            scale,
            zero_point,
            torch.per_tensor_affine,
        )
        assert (
            torch.equal(found.int_repr().cpu(), expected.int_repr())
            and found.int_repr().dtype == DTYPES[dtype]
        )
        assert torch.equal(found.dequantize().cpu(), expected.dequantize())
        assert found.dequantize().stride() == expected.dequantize().stride() or not floats.numel()
    assert not fallbacks(ftm_lazy.metrics.counters())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 3])
def test_per_channel(axis: int, dtype: torch.dtype) -> None:
    floats = torch.randn(3, 4, 2, 5) * 4
    floats.view(-1)[:5] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -0.5])
    count = floats.shape[axis]
    scales, zero_points = torch.rand(count) * 0.1 + 0.01, torch.randint(0, 9, (count,))
    for values in (floats, floats.contiguous(memory_format=torch.channels_last))[
        : 2 if axis < 2 else 1
    ]:
        expected = torch.quantize_per_channel(values, scales, zero_points, axis, dtype)
        found = torch.quantize_per_channel(
            values.to("ftm"), scales.to("ftm"), zero_points.to("ftm"), axis, dtype
        )
        assert torch.equal(found.cpu(), expected)
        assert torch.equal(found.dequantize().cpu(), expected.dequantize())
        assert (
            found.q_per_channel_axis() == axis and found.q_per_channel_scales().device.type == "ftm"
        )
        assert torch.equal(found.q_per_channel_zero_points().cpu(), zero_points)
        assert torch.equal(found.select(axis, 1).cpu(), expected.select(axis, 1))
    assert not fallbacks(ftm_lazy.metrics.counters())


def test_from_integers() -> None:
    for plain in DTYPES.values():
        integers = torch.arange(12, dtype=plain).view(3, 4)
        expected = torch._make_per_tensor_quantized_tensor(integers, 0.3, 5)
        same(torch._make_per_tensor_quantized_tensor(integers.to("ftm"), 0.3, 5), expected)
    scales, zeros = torch.tensor([0.1, 0.2, 0.3, 0.5]), torch.tensor([1, 2, 3, 0])
    expected = torch._make_per_channel_quantized_tensor(integers.to(torch.int8), scales, zeros, 1)
    found = torch._make_per_channel_quantized_tensor(
        integers.to(torch.int8).to("ftm"), scales.to("ftm"), zeros.to("ftm"), 1
    )
    same(found, expected)
    same(
        torch.quantize_per_tensor(
            torch.ones(3, device="ftm"), torch.tensor(0.5), torch.tensor(1), torch.qint8
        ),
        torch.quantize_per_tensor(torch.ones(3), 0.5, 1, torch.qint8),
    )
    same(
        torch.quantize_per_tensor_dynamic(torch.arange(-3.0, 8, device="ftm"), torch.quint8, False),
        torch.quantize_per_tensor_dynamic(torch.arange(-3.0, 8), torch.quint8, False),
    )


def test_refused_as_by_the_cpu() -> None:
    for device in ("cpu", "ftm"):
        with pytest.raises(RuntimeError, match="Float"):
            torch.quantize_per_tensor(
                torch.ones(3, dtype=torch.int64, device=device), 0.1, 0, torch.qint8
            )
        with pytest.raises(RuntimeError, match="zero_point 300 is above upper bound"):
            torch.quantize_per_tensor(torch.ones(3, device=device), 0.1, 300, torch.qint8)
        with pytest.raises(RuntimeError, match="to non-quantized Tensor is not allowed"):
            torch.ones(3, device=device).copy_(made((3,)).to(device))
    with pytest.raises(NotImplementedError, match="QUInt4x2"):
        torch.quantize_per_tensor(torch.ones(4, device="ftm"), 0.1, 0, torch.quint4x2)


def test_moved_saved_and_copied() -> None:
    by_channel = torch.quantize_per_channel(
        torch.randn(3, 4), torch.rand(3) + 0.1, torch.tensor([1, 0, 2]), 0, torch.qint8
    )
    with_gaps = made((3, 9))[:, ::2]
    assert torch.equal(with_gaps.to("ftm").cpu(), with_gaps)
    for expected in (
        made((3, 4)),
        made((2, 3, 4, 5)).contiguous(memory_format=torch.channels_last),
        by_channel,
    ):
        found = expected.to("ftm")
        same(found, expected)
        same(copy.deepcopy(found), expected)
        same(found.clone(), expected)
        assert torch.equal(found, expected.to("ftm")) and not torch.equal(
            found, expected.to("ftm").fill_(0.3)
        )
        file = io.BytesIO()
        torch.save(found, file)
        file.seek(0)
        same(torch.load(file), expected)
        file.seek(0)
        assert torch.equal(torch.load(file, map_location="cpu"), expected)
    assert "quantization_scheme=torch.per_channel_affine" in repr(found) and "ftm:0" in repr(found)
    target = torch.empty_quantized([3, 4], made((1,)).to("ftm"), device="ftm")
    floats = torch.randn(3, 4)
    same(target.copy_(floats.to("ftm")), torch.quantize_per_tensor(floats, 0.021, 20, torch.quint8))
    same(target.copy_(floats), torch.quantize_per_tensor(floats, 0.021, 20, torch.quint8))
    same(
        torch._empty_affine_quantized(
            [2, 3], scale=0.1, zero_point=3, dtype=torch.qint8, device="ftm"
        ).fill_(1.0),
        torch._empty_affine_quantized([2, 3], scale=0.1, zero_point=3, dtype=torch.qint8).fill_(
            1.0
        ),
    )


def scaled(x: Tensor) -> Tensor:
    return torch._make_per_tensor_quantized_tensor(x.int_repr(), 0.033, 7)


EXACT: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "relu_": lambda q: q.clone().relu_(),
    "relu6": torch.nn.functional.relu6,
    "clamp": lambda q: q.clamp(-0.2, 0.7),
    "hardtanh": lambda q: torch.nn.functional.hardtanh(q, -0.2, 1.2),
    "max_pool2d": lambda q: torch.nn.functional.max_pool2d(q, 3, 2, 1),
    "max_pool1d": lambda q: torch.nn.functional.max_pool1d(q[0], 3, 2, 1),
    "adaptive_avg_pool2d": lambda q: torch.nn.functional.adaptive_avg_pool2d(q, 1),
    "upsample_nearest": lambda q: torch.nn.functional.interpolate(q, scale_factor=2),
    "mean": lambda q: q.mean((2, 3)),
    "sigmoid": torch.sigmoid,
    "hardsigmoid": torch.nn.functional.hardsigmoid,
    "tanh": torch.tanh,
    "cat": lambda q: torch.cat([q, q[:, :1]], 1),
    "mul": lambda q: torch.ops.quantized.mul(q, scaled(q), 0.04, 50),
    "mul_relu": lambda q: torch.ops.quantized.mul_relu(q, scaled(q), 0.04, 50),
    "reshaped": lambda q: q.transpose(1, 2)[:, 1:3].reshape(2, -1),
    "permuted": lambda q: q.permute(1, 0, 3, 2).contiguous(),
    "viewed": lambda q: q.flatten(1).unsqueeze(1).squeeze(1),
    "chosen": lambda q: q[:, torch.tensor([2, 0])],
    "index_select": lambda q: q.index_select(2, torch.tensor([4, 1], device=q.device)),
    "flip": lambda q: q.flip(1),
    "sorted": lambda q: q.sort(stable=True, dim=-1)[0],
    "greatest": lambda q: q.max(1)[0],
    "greatest of all": lambda q: q.max(),
    "compared": lambda q: q.ge(0.1) & (q == q) & q.lt(scaled(q)),
}
TO_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    # the CPU's own vector code and its remainder loop differ in ties
    "add": lambda q: torch.ops.quantized.add(q, scaled(q), 0.04, 50),
    "add_relu": lambda q: torch.ops.quantized.add_relu(q, scaled(q), 0.04, 50),
    "cat to other parameters": lambda q: torch.ops.quantized.cat([q, scaled(q)], 1, 0.05, 9),
    "hardswish": lambda q: torch.ops.quantized.hardswish(q, 0.03, 4),
    "avg_pool2d": lambda q: torch.nn.functional.avg_pool2d(q, 3, 2, 1),
    "leaky_relu": lambda q: torch.ops.quantized.leaky_relu(q, 0.1, False, 0.03, 4),
    "elu": lambda q: torch.ops.quantized.elu(q, 0.03, 4),
    "softmax": lambda q: torch.ops.quantized.softmax(q, 1, 1 / 256, 0),
    "bilinear": lambda q: torch.nn.functional.interpolate(q, scale_factor=2, mode="bilinear"),
    "layer_norm": lambda q: torch.ops.quantized.layer_norm(q, [5, 4], None, None, 1e-5, 0.03, 100),
}


@pytest.mark.parametrize("name", EXACT)
def test_elementwise(name: str) -> None:
    for q in (made((2, 3, 5, 4)), made((2, 3, 5, 4)).contiguous(memory_format=torch.channels_last)):
        expected, found = EXACT[name](q), EXACT[name](q.to("ftm"))
        assert found.device.type == "ftm" and torch.equal(found.cpu(), expected)
    assert not fallbacks(ftm_lazy.metrics.counters())


@pytest.mark.parametrize("name", TO_ONE)
def test_to_the_last_place(name: str) -> None:
    q = made((2, 3, 5, 4))
    expected, found = TO_ONE[name](q), TO_ONE[name](q.to("ftm"))
    assert (found.q_scale(), found.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
    differences = (found.int_repr().cpu().int() - expected.int_repr().int()).abs()
    assert differences.max() <= 1 and differences.float().mean() < 0.1
    assert not fallbacks(ftm_lazy.metrics.counters())


def test_others_run_on_the_cpu_and_are_counted() -> None:
    q = made((3, 4))
    found = torch.ops.quantized.add_scalar(q.to("ftm"), 0.37)
    same(found, torch.ops.quantized.add_scalar(q, 0.37))
    assert fallbacks(ftm_lazy.metrics.counters()) == {"fallback::quantized::add_scalar": 1}


def weight(shape: tuple[int, ...], by_channel: bool, axis: int = 0) -> Tensor:
    floats = torch.randn(shape)
    if not by_channel:
        return torch.quantize_per_tensor(
            floats.clamp(-LARGEST_WEIGHT * 0.021, LARGEST_WEIGHT * 0.021), 0.021, 0, torch.qint8
        )
    count = shape[axis]
    scales = torch.rand(count) * 0.02 + 0.01
    most = LARGEST_WEIGHT * scales.view(*(-1 if k == axis else 1 for k in range(len(shape))))
    return torch.quantize_per_channel(
        floats.clamp(-most, most), scales, torch.zeros(count, dtype=torch.long), axis, torch.qint8
    )


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(by_channel: bool, bias: bool) -> None:
    packed = torch.ops.quantized.linear_prepack(
        weight((33, 100), by_channel), torch.randn(33) if bias else None
    )
    for op in (torch.ops.quantized.linear, torch.ops.quantized.linear_relu):
        for q in (made((70, 100), zero_point=121), made((2, 3, 100)), made((0, 100))):
            same(op(q.to("ftm"), packed, 0.21, 77), op(q, packed, 0.21, 77))
    assert not fallbacks(ftm_lazy.metrics.counters())


def test_linear_as_qnnpack_rounds() -> None:
    torch.backends.quantized.engine = "qnnpack"
    packed = torch.ops.quantized.linear_prepack(weight((33, 100), True), torch.randn(33))
    q = made((70, 100), zero_point=121)
    same(
        torch.ops.quantized.linear(q.to("ftm"), packed, 0.21, 77),
        torch.ops.quantized.linear(q, packed, 0.21, 77),
    )


@pytest.mark.parametrize("by_channel", [False, True])
def test_convolutions(by_channel: bool) -> None:
    library = torch.ops.quantized
    bias = torch.randn(6)
    packed = library.conv2d_prepack(
        weight((6, 2, 3, 3), by_channel), bias, [2, 1], [1, 1], [1, 2], 2
    )
    q = made((3, 4, 9, 8), zero_point=120)
    for values in (q, q.contiguous(memory_format=torch.channels_last), q[:1]):
        same(
            library.conv2d(values.to("ftm"), packed, 0.11, 77),
            library.conv2d(values, packed, 0.11, 77),
        )
    same(
        library.conv2d_relu(q.to("ftm"), packed, 0.11, 77), library.conv2d_relu(q, packed, 0.11, 77)
    )
    packed = library.conv1d_prepack(weight((6, 4, 3), by_channel), bias, [1], [1], [1], 1)
    row = q[:, :, 3].contiguous()
    assert torch.equal(
        library.conv1d(row.to("ftm"), packed, 0.2, 7).cpu(), library.conv1d(row, packed, 0.2, 7)
    )
    packed = library.conv3d_prepack(
        weight((6, 3, 2, 3, 2), by_channel), bias, [1] * 3, [0] * 3, [1] * 3, 1
    )
    q = made((2, 3, 4, 5, 4))
    same(library.conv3d(q.to("ftm"), packed, 0.2, 7), library.conv3d(q, packed, 0.2, 7))
    if not by_channel:
        packed = library.conv_transpose2d_prepack(
            weight((4, 6, 3, 3), False), bias, [2, 2], [1, 1], [1, 1], [1, 1], 1
        )
        q = made((3, 4, 9, 8), zero_point=120)
        same(
            library.conv_transpose2d(q.to("ftm"), packed, 0.3, 77),
            library.conv_transpose2d(q, packed, 0.3, 77),
        )
    assert not fallbacks(ftm_lazy.metrics.counters())


def test_products_of_what_integers_stand_for() -> None:
    """As torch-mlir's tests write them: made of integers, dequantized, multiplied as floats."""

    def matmul(x: Tensor, y: Tensor) -> Tensor:
        left = torch.dequantize(
            torch._make_per_tensor_quantized_tensor(x, 0.03, -25 if x.dtype == torch.int8 else 25)
        )
        right = torch.dequantize(torch._make_per_tensor_quantized_tensor(y, 0.01, 18))
        return torch.quantize_per_tensor(left @ right, 0.07, 3, torch.qint32).dequantize()

    def convolution(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        scales = torch.tensor([0.01, 0.02, 0.03], device=x.device)
        weights = torch._make_per_channel_quantized_tensor(
            w, scales, torch.zeros(3, dtype=torch.int8, device=x.device), 0
        )
        inputs = torch._make_per_tensor_quantized_tensor(x, 0.02, 7)
        addends = torch.quantize_per_tensor(bias, 2e-4, 0, torch.qint32)
        return torch.nn.functional.conv2d(
            inputs.dequantize(), weights.dequantize(), addends.dequantize(), padding=1
        )

    def integers(*shape: int, dtype: torch.dtype = torch.int8) -> Tensor:
        return torch.randint(0, 120, shape).to(dtype)

    cases = [
        (matmul, integers(5, 7), integers(7, 3)),
        (matmul, integers(5, 7, dtype=torch.uint8), integers(7, 3)),
        (matmul, integers(7), integers(7, 3)),
        (matmul, integers(2, 5, 7), integers(2, 7, 3)),
        (convolution, integers(2, 4, 6, 5), integers(3, 4, 3, 3), torch.randn(3)),
    ]
    for function, *operands in cases:
        torch.testing.assert_close(
            function(*(v.to("ftm") for v in operands)).cpu(),
            function(*operands),
            rtol=1e-5,
            atol=1e-4,
        )
    assert not fallbacks(ftm_lazy.metrics.counters())


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            torch.ao.quantization.QuantStub(),
            nn.Linear(16, 32),
            nn.ReLU(),
            nn.Linear(32, 8),
            nn.Tanh(),
            nn.Linear(8, 4),
            torch.ao.quantization.DeQuantStub(),
        )
        self.fused = [["layers.1", "layers.2"]]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quantize, self.dequantize = (
            torch.ao.quantization.QuantStub(),
            torch.ao.quantization.DeQuantStub(),
        )
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8))
        self.join = torch.ao.nn.quantized.FloatFunctional()
        self.head = nn.Sequential(
            nn.MaxPool2d(2),
            nn.Conv2d(8, 6, 1),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(6, 5),
        )
        self.fused = [["first.0", "first.1", "first.2"], ["second.0", "second.1"]]

    def forward(self, x: Tensor) -> Tensor:
        made = self.first(self.quantize(x))
        return self.dequantize(self.head(self.join.mul(made, self.second(made))))


@pytest.mark.parametrize("model,shape", [(Perceptron, (9, 16)), (Convolutional, (4, 3, 12, 10))])
def test_converted_models(model: type[nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    converted = torch.ao.quantization.fuse_modules(plain := model().eval(), plain.fused)
    converted.qconfig = configuration()
    torch.ao.quantization.prepare(converted, inplace=True)
    for _ in range(3):
        converted(torch.randn(shape))
    torch.ao.quantization.convert(converted, inplace=True)
    x = torch.randn(shape)
    expected = converted(x)
    moved = copy.deepcopy(converted).to("ftm")
    found = moved(x.to("ftm"))
    assert torch.equal(found.cpu(), expected)
    again = moved(x.to("ftm"))
    assert torch.equal(again.cpu(), expected)
    file = io.BytesIO()
    torch.save(moved.state_dict(), file)
    file.seek(0)
    converted.load_state_dict(torch.load(file, map_location="cpu", weights_only=False))
    assert torch.equal(converted(x), expected)
    assert not fallbacks(ftm_lazy.metrics.counters())
