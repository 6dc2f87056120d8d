"""The convolutions of ResNet-18, compiled for an FT-Matrix machine and costed; see ``target``.

Forward, gradient of the input and gradient of the weight are separate programs. The roofline counts
the multiplications of whole windows, one read of each operand and one write of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets

DIRECTIONS = ("forward", "input", "weight")
"""The result, and the gradients of the input and of the weight."""

_LAYERS = (  # channels, filters, window, stride, input image's side divided by this layer's
    (3, 64, 7, 2, 1),
    (64, 64, 3, 1, 4),
    (64, 128, 3, 2, 4),
    (64, 128, 1, 2, 4),
    (128, 128, 3, 1, 8),
    (128, 256, 3, 2, 8),
    (128, 256, 1, 2, 8),
    (256, 256, 3, 1, 16),
    (256, 512, 3, 2, 16),
    (256, 512, 1, 2, 16),
    (512, 512, 3, 1, 32),
)


@dataclass(frozen=True)
class Convolution:
    """A square convolution, padded by half of its window, in f32."""

    direction: str
    images: int
    channels: int
    filters: int
    window: int
    stride: int
    side: int
    cores: int = 8
    machine: str = "m7032"

    @property
    def out(self) -> int:
        """Side of the result."""
        return (self.side + 2 * (self.window // 2) - self.window) // self.stride + 1

    @property
    def name(self) -> str:
        """Description on one line."""
        stride = f" stride {self.stride}" * (self.stride > 1)
        shape = f"{self.images}x{self.channels}x{self.side}x{self.side}"
        return (
            f"{self.machine} {self.direction} {shape} to {self.filters}, "
            f"{self.window}x{self.window}{stride}, {self.cores} core{'s' * (self.cores > 1)}"
        )

    @property
    def shapes(self) -> tuple[str, str, str]:
        """Types of the input, the weight and the result."""
        return (
            f"f32[{self.images},{self.channels},{self.side},{self.side}]",
            f"f32[{self.filters},{self.channels},{self.window},{self.window}]",
            f"f32[{self.images},{self.filters},{self.out},{self.out}]",
        )

    def trace(self) -> str:
        """Build the trace of the operation."""
        x, w, y = self.shapes
        padding = self.window // 2
        geometry = (
            f"stride=[{self.stride},{self.stride}], padding=[{padding},{padding}],"
            " dilation=[1,1], transposed=false, output_padding=[0,0], groups=1"
        )
        if self.direction == "forward":
            return (
                f"trace\n  %0 = param {x}\n  %1 = param {w}\n"
                f"  %2 = aten::convolution(input=%0, weight=%1, bias=none, {geometry}) : {y}\n"
                "  return %2\n"
            )
        for_input = self.direction == "input"
        results = f"{x}, none, none" if for_input else f"none, {w}, none"
        mask = f"{str(for_input).lower()},{str(not for_input).lower()},false"
        return (
            f"trace\n  %0 = param {y}\n  %1 = param {x}\n  %2 = param {w}\n"
            "  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2,"
            f" bias_sizes=none, {geometry}, output_mask=[{mask}]) : {results}\n"
            f"  return {'%3' if for_input else '%4'}\n"
        )

    def roofline_seconds(self) -> float:
        """Return the larger of the operations' time at peak and the minimal traffic's time."""
        machine = presets.load(self.machine)
        pixels = self.images * self.out**2
        weights = self.filters * self.channels * self.window**2
        whole = self.window >= self.stride or self.direction == "input"
        # pixels between the windows need not be read; a gradient has zeros there
        read = self.side if whole else self.out
        least = 4 * (self.images * self.channels * read**2 + weights + self.filters * pixels)
        bandwidth = min(machine.ddr_bandwidth, self.cores * machine.core_bandwidth)
        return max(2 * pixels * weights / machine.peak_flops("f32", self.cores), least / bandwidth)


@dataclass(frozen=True)
class ConvolutionResult:
    """Modelled cost of a convolution; shares in percent."""

    row: Convolution
    of_roofline: float
    milliseconds: float
    ddr_bytes: int


def convolutions(sides: tuple[int, ...] = (224, 32), images: int = 16) -> list[Convolution]:
    """Return ResNet-18's distinct convolutions in three directions, for square input images."""
    return [
        Convolution(direction, images, channels, filters, window, stride, max(1, side // part))
        for side in sides
        for channels, filters, window, stride, part in _LAYERS
        for direction in DIRECTIONS
    ]


def compiled(row: Convolution) -> str:
    """Return the assembly."""
    return driver.run_from(
        "trace", row.trace(), "asm", CompileOptions(machine=row.machine, cores=row.cores)
    )


def measure(row: Convolution) -> ConvolutionResult:
    """Compile and model one convolution."""
    profile = cycle_model.model(compiled(row), machine=row.machine, cores=row.cores)
    return ConvolutionResult(
        row,
        100 * row.roofline_seconds() / profile.seconds,
        profile.seconds * 1e3,
        profile.dma_bytes,
    )


def table(results: list[ConvolutionResult]) -> str:
    """Format the results as a table."""
    return "\n".join(
        [
            "modelled; percent",
            f"{'convolution':58} {'of roofline':>11} {'ms':>9}",
            *(f"{r.row.name:58} {r.of_roofline:11.1f} {r.milliseconds:9.3f}" for r in results),
        ]
    )
