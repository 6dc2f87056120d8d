"""Random ops: the same bits as Philox written from its paper, whatever the shape; sound
statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ftm_backend import mlir
from ftm_backend.frontend import lower
from ftm_backend.frontend.ops import RECORDS
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.torch_mlir import execution_engine as oracle
from ops import capture
from ops.arrays import from_numpy, to_numpy

aten = torch.ops.aten
MASK = 0xFFFFFFFF


def philox(index: int, seed: int, offset: int) -> int:
    """Word ``index`` of Philox4x32-10 with counter (index / 4, offset) and key seed."""
    block = index >> 2
    c = [block & MASK, block >> 32, offset & MASK, offset >> 32]
    k = [seed & MASK, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & MASK, (p >> 32) ^ c[3] ^ k[1], p & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c[index & 3]


def test_philox_known_answer() -> None:
    """The vectors published with the generator."""
    assert [philox(k, 0, 0) for k in range(4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def words(count: int, per_element: int, recording: capture.Recording) -> np.ndarray:
    """[count, per_element] words of the (only) random node of a recording, as uint64."""
    seed, offset = (int(v) for v in recording.scalars[-2:])
    table = [
        [philox(i * per_element + k, seed, offset) for k in range(per_element)]
        for i in range(count)
    ]
    return np.array(table, dtype=np.uint64).reshape(count, per_element)


def units(count: int, dtype: torch.dtype, recording: capture.Recording) -> np.ndarray:
    if dtype == torch.float64:
        w = words(count, 2, recording)
        return ((w[:, 0] >> 5) * 2.0**26 + (w[:, 1] >> 6)) * 2.0**-53
    return (words(count, 1, recording)[:, 0] >> 8).astype(np.float32) * np.float32(2.0**-24)


def run(op: Any, *args: Any, **kwargs: Any) -> tuple[capture.Recording, list[torch.Tensor]]:
    recording, expected = capture.call(op, *args, **kwargs)
    with mlir.context():
        program = oracle.EngineProgram(
            mlir.ir.Module.parse(print_function(lower(recording.trace))), optimize=False
        )
    got = program.run("main", [to_numpy(p) for p in recording.params], recording.scalars)
    return recording, [from_numpy(g, e.dtype) for g, e in zip(got, expected, strict=True)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(5, 7), (2, 1, 3), (), (0, 2)])
def test_uniform(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, dtype=dtype)
    recording, (got,) = run(aten.uniform.default, x, -1.0, 3.0)
    compute = np.float64 if dtype == torch.float64 else np.float32
    want = torch.from_numpy(
        compute(-1) + units(x.numel(), dtype, recording).astype(compute) * compute(4)
    )
    nearest = want.to(dtype)
    rounded_down = torch.where(
        nearest.to(want.dtype) > want, nearest.nextafter(torch.tensor(-2, dtype=dtype)), nearest
    )
    assert torch.equal(got, rounded_down.reshape(shape))


def open_units(
    count: int, per_element: int, dtype: torch.dtype, recording: capture.Recording
) -> np.ndarray:
    """[count, per_element] numbers in (0, 1): midpoints of 2^23 intervals, of 2^52 for f64."""
    if dtype == torch.float64:
        w = words(count, 2 * per_element, recording).reshape(count, per_element, 2)
        return ((w[..., 0] >> 5) * 2.0**25 + (w[..., 1] >> 7) + 0.5) * 2.0**-52
    return (
        (words(count, per_element, recording) >> 9).astype(np.float32) + np.float32(0.5)
    ) * np.float32(2.0**-23)


def standard_normals(count: int, dtype: torch.dtype, recording: capture.Recording) -> np.ndarray:
    u = open_units(count, 2, dtype, recording)
    return np.sqrt(-2 * np.log(u[:, 0])) * np.cos(u.dtype.type(2 * np.pi) * u[:, 1])


def assert_drawn(got: torch.Tensor, want: np.ndarray, name: str) -> None:
    """Equal within four times the record's tolerance: numpy's functions round on their own."""
    relative, absolute = RECORDS[name].tolerance[capture.DTYPES[got.dtype]]
    torch.testing.assert_close(
        got,
        torch.from_numpy(want).to(got.dtype).reshape(got.shape),
        rtol=relative * 4,
        atol=absolute * 4,
    )


WITH_DOUBLE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])


@WITH_DOUBLE
def test_normal(dtype: torch.dtype) -> None:
    recording, (got,) = run(
        aten.normal_functional.default, torch.zeros(9, 5, dtype=dtype), 1.0, 2.0
    )
    assert_drawn(got, standard_normals(45, dtype, recording) * 2 + 1, "aten::normal_functional")


@WITH_DOUBLE
def test_normal_of_tensors(dtype: torch.dtype) -> None:
    """Means and deviations as tensors, one of them as a number, broadcast against each other."""
    mean, deviation = torch.randn(4, 1).to(dtype), torch.rand(4, 5).to(dtype)
    for op, arguments in (
        (aten.normal.Tensor_Tensor, (mean, deviation)),
        (aten.normal.Tensor_float, (mean, 0.5)),
        (aten.normal.float_Tensor, (-1.0, deviation)),
    ):
        recording, (got,) = run(op, *arguments)
        z = standard_normals(got.numel(), dtype, recording).reshape(got.shape)
        parts = [a.double().numpy() if isinstance(a, torch.Tensor) else a for a in arguments]
        assert_drawn(got, z * parts[1] + parts[0], "aten::normal.Tensor_Tensor")


@WITH_DOUBLE
def test_log_normal(dtype: torch.dtype) -> None:
    recording, (got,) = run(aten.log_normal.default, torch.zeros(40, dtype=dtype), 0.2, 0.5)
    assert_drawn(
        got, np.exp(standard_normals(40, dtype, recording) * 0.5 + 0.2), "aten::log_normal"
    )


@WITH_DOUBLE
def test_cauchy(dtype: torch.dtype) -> None:
    recording, (got,) = run(aten.cauchy.default, torch.zeros(60, dtype=dtype), 0.5, 2.0)
    u = open_units(60, 1, dtype, recording)[:, 0].astype(np.float64)
    assert_drawn(got, np.tan(np.pi * (u - 0.5)) * 2 + 0.5, "aten::cauchy")


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8]
)
def test_geometric(dtype: torch.dtype) -> None:
    recording, (got,) = run(aten.geometric.default, torch.zeros(50, dtype=dtype), 0.25)
    compute = torch.float64 if not dtype.is_floating_point else dtype
    u = open_units(50, 1, compute, recording)[:, 0]
    assert got.tolist() == np.ceil(np.log(u) / np.log1p(-u.dtype.type(0.25))).tolist()
    assert got.min() >= 1


@pytest.mark.parametrize("p", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
def test_bernoulli(p: float, dtype: torch.dtype) -> None:
    x = torch.zeros((6, 11), dtype=dtype)
    recording, (got,) = run(aten.bernoulli.p, x, p)
    want = units(66, torch.float32, recording).astype(np.float64) < p
    assert torch.equal(got, torch.from_numpy(want).reshape(6, 11).to(dtype))


def test_bernoulli_of_probabilities() -> None:
    p = torch.rand(7, 3)
    for op, args in (
        (aten.bernoulli.default, (p,)),
        (aten.bernoulli.Tensor, (torch.zeros(7, 3), p)),
    ):
        recording, (got,) = run(op, *args)
        assert torch.equal(
            got,
            torch.from_numpy(units(21, torch.float32, recording).reshape(7, 3) < p.numpy()).float(),
        )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32, torch.uint8])
@pytest.mark.parametrize("bounds", [(0, 10), (-5, 3), (3, 4)])
def test_integers(dtype: torch.dtype, bounds: tuple[int, int]) -> None:
    if dtype == torch.uint8 and bounds[0] < 0:
        pytest.skip("no negative uint8")
    op = getattr(aten.random, "from")
    recording, (got,) = run(op, torch.zeros(31, dtype=dtype), *bounds)
    w = words(31, 2, recording)
    want = (w[:, 0] | (w[:, 1] << np.uint64(32))) % np.uint64(bounds[1] - bounds[0])
    assert torch.equal(got, torch.from_numpy(want.astype(np.int64) + bounds[0]).to(dtype))


def test_exponential() -> None:
    recording, (got,) = run(aten.exponential.default, torch.zeros(40), 2.0)
    want = -np.log1p(-open_units(40, 1, torch.float32, recording)[:, 0]) / np.float32(2)
    torch.testing.assert_close(got, torch.from_numpy(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_native_dropout(dtype: torch.dtype) -> None:
    x = torch.randn(64, 33).to(dtype)
    recording, (got, mask) = run(aten.native_dropout.default, x, 0.3, True)
    want = units(x.numel(), torch.float32, recording).reshape(64, 33) < 1 - 0.3
    assert np.array_equal(mask.numpy(), want)
    torch.testing.assert_close(got, (x.float() * torch.from_numpy(want) / 0.7).to(dtype))
    assert abs(want.mean() - 0.7) < 0.03


def test_dropout_off_is_the_input() -> None:
    x = torch.randn(3, 4)
    _, (got, mask) = run(aten.native_dropout.default, x, 0.3, False)
    assert torch.equal(got, x)
    assert mask.all()


def test_factories_draw_as_their_in_place_forms() -> None:
    """rand and randn take the words that uniform_ and normal_ take."""
    for op, dtype in ((aten.rand.default, torch.float32), (aten.rand.default, torch.float64)):
        recording, (got,) = run(op, [4, 6], dtype=dtype)
        assert torch.equal(got, torch.from_numpy(units(24, dtype, recording)).reshape(4, 6))
    recording, (got,) = run(aten.randint.low, -2, 5, [50])
    assert got.min() >= -2
    assert got.max() <= 4


@pytest.mark.parametrize("n", [1, 2, 17, 4097])
def test_randperm(n: int) -> None:
    """The places of sorted keys, of 32 bits for short permutations."""
    recording, (got,) = run(aten.randperm.generator, n, generator=None, dtype=torch.int32)
    keys = words(n, 1, recording)[:, 0].astype(np.uint32).view(np.int32)
    if n > 2**12:
        w = words(n, 2, recording)
        keys = (w[:, 0] | (w[:, 1] << np.uint64(32))).view(np.int64)
    assert got.dtype == torch.int32
    assert got.tolist() == np.argsort(keys, kind="stable").tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6,), (3, 5), (2, 1)])
def test_multinomial_with_replacement(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    weights = torch.rand(shape).to(dtype)
    weights[..., shape[-1] // 2 + 1 :] = 0
    recording, (got,) = run(aten.multinomial.default, weights, 8, True)
    sums = weights.double().reshape(-1, shape[-1]).cumsum(1).numpy()
    drawn = units(8 * len(sums), torch.float64, recording).reshape(-1, 8) * sums[:, -1:]
    want = (sums[:, None, :] <= drawn[:, :, None]).sum(2)
    assert got.reshape(-1, 8).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("shape", [(6,), (3, 5)])
def test_multinomial_without_replacement(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """A race: weights against exponential times, the first ones win; what has no weight comes
    last."""
    weights = torch.rand(shape).to(dtype)
    weights[..., 2] = 0
    recording, (got,) = run(aten.multinomial.default, weights, shape[-1], False)
    noise = -np.log(open_units(weights.numel(), 1, torch.float32, recording)[:, 0]).reshape(shape)
    want = np.argsort(-weights.double().numpy() / noise, axis=-1, kind="stable")
    assert got.tolist() == want.tolist()
    assert (got[..., -1] == 2).all()


def test_every_random_family_is_covered() -> None:
    """A new random family needs a test in this file."""
    families = {r.family for r in RECORDS.values() if r.family.startswith("random")}
    assert families == {
        "random_uniform", "random_normal", "random_normal_tensor", "random_bernoulli_p",
        "random_bernoulli", "random_bernoulli_tensor", "random_integers", "random_exponential",
        "random_dropout", "random_log_normal", "random_cauchy", "random_geometric",
        "random_permutation", "random_multinomial",
    }  # fmt: skip
