"""Calls to test factorizations and linear systems with; see samples.py. Their matrices are well
conditioned."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, sampler

SHAPES = ((4, 4), (1, 1), (2, 3, 5, 5), (0, 3, 3), (0, 0), (9, 9))


def square(source: Source, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return source.tensor(shape, dtype) + 3 * torch.eye(shape[-1], dtype=dtype)


def positive(source: Source, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    matrices = source.tensor(shape, dtype)
    return matrices @ matrices.mT + 3 * torch.eye(shape[-1], dtype=dtype)


def right(source: Source, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return source.tensor((*shape[:-1], 2), dtype)


@sampler("cholesky")
def cholesky(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        for upper in (False, True):
            yield (positive(source, shape, dtype),), {"upper": upper}


@sampler("cholesky_solve")
def cholesky_solve(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        for upper in (False, True):
            factor = torch.linalg.cholesky(positive(source, shape, dtype), upper=upper)
            yield (right(source, shape, dtype), factor, upper), {}


@sampler("cholesky_inverse")
def cholesky_inverse(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        for upper in (False, True):
            yield (torch.linalg.cholesky(positive(source, shape, dtype), upper=upper), upper), {}


@sampler("solve_triangular")
def solve_triangular(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        for upper in (False, True):
            for left in (False, True):
                side = right(source, shape, dtype)
                options = {"upper": upper, "left": left, "unitriangular": upper == left}
                matrix = positive(source, shape, dtype) / (20 if upper == left else 1)
                yield (matrix, side if left else side.mT), options


@sampler("triangular_solve")
def triangular_solve(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        for upper in (False, True):
            for transpose in (False, True):
                yield (
                    (right(source, shape, dtype), positive(source, shape, dtype), upper, transpose),
                    {},
                )


@sampler("lu_factor")
def lu_factor(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in (*SHAPES, (3, 5), (5, 3), (2, 4, 6)):
        yield (source.tensor(shape, dtype),), {}
    yield (torch.ones(3, 3, dtype=dtype),), {}


@sampler("lu_solve")
def lu_solve(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if not dtype.is_floating_point:
        return
    for shape in SHAPES:
        factors, pivots = torch.linalg.lu_factor(square(source, shape, dtype))
        for left in (False, True):
            for adjoint in (False, True):
                side = right(source, shape, dtype)
                yield (
                    (factors, pivots, side if left else side.mT),
                    {"left": left, "adjoint": adjoint},
                )


@sampler("lu_unpack")
def lu_unpack(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if not dtype.is_floating_point:
        return
    for shape in (*SHAPES, (3, 5), (5, 3)):
        yield (*torch.linalg.lu_factor(source.tensor(shape, dtype)),), {}
        yield (*torch.linalg.lu_factor(source.tensor(shape, dtype)), False, True), {}
