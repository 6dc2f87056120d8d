"""The first layers of a network: a batch norm, an activation, a pooling; and their gradients."""

from __future__ import annotations

from dataclasses import dataclass

from midend.trace_builder import Program, Value


@dataclass(frozen=True)
class Stem:
    """Its program, without results.

    Attributes:
        x: The input; `norm`: its batch norm, with mean, deviation and new statistics.
        image: What is pooled: `norm`'s result, after the activation if there is one.
        pooled: The pooled images, and the places of maxima.
        gradient: That of the batch norm's result.
    """

    program: Program
    x: Value
    weight: Value
    norm: list[Value]
    image: Value
    pooled: list[Value]
    gradient: Value

    @property
    def stats(self) -> str:
        """Type of the channels' statistics."""
        return self.weight.dtype

    def batch_norm_backward(self, of_image: bool) -> list[Value]:
        """The gradients of the input, if wanted, and of the weight and the bias."""
        _, mean, deviation, running_mean, running_variance = self.norm
        dtypes = [self.x.dtype, self.stats, self.stats]
        found: list[Value] = self.program.call(
            "native_batch_norm_backward",
            dtypes,
            grad_out=self.gradient,
            input=self.x,
            weight=self.weight,
            running_mean=running_mean,
            running_var=running_variance,
            save_mean=mean,
            save_invstd=deviation,
            train=True,
            eps=1e-05,
            output_mask=[of_image, True, True],
        )
        return found


def stem(
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int] = (3, 3),
    stride: tuple[int, int] = (2, 2),
    padding: tuple[int, int] = (1, 1),
    activation: bool = True,
    average: bool = False,
    special: bool = False,
    dtype: str = "f32",
) -> Stem:
    """special: some elements of the input and of the gradient are infinite or NaN."""
    program = Program(dtype)
    stats = "f32" if dtype in ("f16", "bf16") else dtype
    x = program.random(*shape)
    vectors = [program.random(shape[1], dtype=stats) for _ in range(3)]
    vectors.append(program.parameter(program.random(shape[1]).exact.abs(), stats))
    if special:
        x.exact[0, 1, 3, 2], x.exact[0, 2, 5, 5] = float("nan"), float("inf")
    norm = program.batch_norm(x, vectors)
    image = program.relu(norm[0]) if activation else norm[0]
    given = {"kernel_size": kernel, "stride": stride, "padding": padding}
    if average:
        given |= {"ceil_mode": False, "count_include_pad": True, "divisor_override": None}
        pooled = [program.call("avg_pool2d", self=image, **given)]
    else:
        given |= {"dilation": (1, 1), "ceil_mode": False}
        pooled = program.call("max_pool2d_with_indices", self=image, **given)
    entering = program.random(*pooled[0].shape)
    if special:
        entering.exact[0, 3, 1, 1], entering.exact[0, 4, 0, 0] = float("nan"), float("inf")
    op = "avg_pool2d_backward" if average else "max_pool2d_with_indices_backward"
    places = {} if average else {"indices": pooled[1]}
    gradient = program.call(op, grad_output=entering, self=image, **given, **places)
    gradient = program.relu_backward(gradient, image) if activation else gradient
    return Stem(program, x, vectors[0], norm, image, pooled, gradient)
