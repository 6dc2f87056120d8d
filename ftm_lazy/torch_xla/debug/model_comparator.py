"""torch_xla.debug.model_comparator: save tensors of two runs of a model and compare them.

python -m ftm_lazy.torch_xla -m torch_xla.debug.model_comparator FIRST SECOND
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from ftm_backend.cli_common import Parser, UserError, command, naming
from ftm_backend.safe_names import printable
from ftm_lazy.torch_xla import _world

__all__ = ["compare", "compare_tensors", "configure", "save", "tensor_file_compare"]

_directory: str | None = None
_step: int | None = None
_saved: Counter[str] = Counter()


def configure(save_dir: str | None) -> None:
    """Set the directory of `save`; with None it is ``MODELCMP_SAVEDIR``, if that is set."""
    global _directory, _step
    _directory, _step = save_dir, None
    _saved.clear()


def save(name: str | None, tensor: torch.Tensor, step: int | None = None) -> torch.Tensor:
    """Write a tensor as NAME.N, in the first process of the host, and return it.

    Args:
        name: The file's name; None for the caller's file and line.
        tensor: The tensor.
        step: If given, the file goes to the folder step-STEP.
    """
    global _step
    directory = _directory or os.environ.get("MODELCMP_SAVEDIR")
    if directory is None:
        return tensor
    value = tensor.detach().cpu()
    if _world.local_ordinal() == 0:
        frame = sys._getframe(1)
        name = name or f"{Path(frame.f_code.co_filename).name}.l{frame.f_lineno}"
        if step is not None and step != _step:
            _step = step
            _saved.clear()
        folder = Path(directory) if step is None else Path(directory, f"step-{step}")
        folder.mkdir(exist_ok=True)
        torch.save(value, folder / f"{name}.{_saved[name]}")
        _saved[name] += 1
    return tensor


def compare_tensors(
    tensor1: torch.Tensor,
    tensor2: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    max_diffs: int = 25,
) -> str:
    """Return a line for each difference above the tolerances, the largest first.

    Args:
        tensor1: A tensor.
        tensor2: A tensor of the same shape.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        max_diffs: Maximum number of lines.
    """
    if tensor1.shape != tensor2.shape:
        return f"Tensors have different shape: {list(tensor1.shape)} vs. {list(tensor2.shape)}\n"
    first, second = tensor1.double().flatten(), tensor2.double().flatten()
    error = (first - second).abs()
    error[error.isnan()] = float("inf")
    error[(first == second) | (first.isnan() & second.isnan())] = 0
    bound = torch.maximum(first.abs(), second.abs()).mul(rtol).clamp(min=atol)
    offsets = (~(error <= bound) & (error > 0)).nonzero().flatten()
    largest = offsets[error[offsets].argsort(descending=True)][:max_diffs]
    lines = []
    for offset in largest.tolist():
        index = [int(i) for i in torch.unravel_index(torch.tensor(offset), tensor1.shape)]
        values = f"{first[offset].item()} vs. {second[offset].item()}"
        lines.append(f"{index}: {values}\terror={error[offset].item()}\n")
    if len(offsets) > max_diffs:
        lines.append(f"... aborting after {max_diffs} differences\n")
    return "".join(lines)


def tensor_file_compare(
    path1: str, path2: str, rtol: float = 1e-05, atol: float = 1e-08, max_diffs: int = 25
) -> str:
    """Call `compare_tensors` for two files that `save` wrote, and add a headline."""
    report = compare_tensors(_load(path1), _load(path2), rtol, atol, max_diffs)
    if not report:
        return ""
    name, _, number = Path(path1).name.rpartition(".")
    step = re.fullmatch(r"step-(\d+)", Path(path1).parent.name)
    head = f'Changes in saved tensor "{name}" with id={number}' + (
        f" at step={step[1]}" if step else ""
    )
    return head + "\n" + "".join(f"  {line}\n" for line in report.splitlines())


def _load(path: str) -> torch.Tensor:
    with naming(path, Exception, what="no saved tensor"):  # torch.load raises many kinds
        tensor = torch.load(path, weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise UserError(f"{path} holds no tensor, but {type(tensor).__name__}")
    return tensor


def compare(
    save_dir1: str, save_dir2: str, rtol: float = 1e-05, atol: float = 1e-08, max_diffs: int = 25
) -> str:
    """Return the differences of the tensors in two directories; "" if there are none."""
    first, second = _files(save_dir1), _files(save_dir2)
    lines = [f"Mismatch: {name} not in {save_dir2}\n" for name in first if name not in second]
    for name in first:
        if name in second:
            lines.append(
                tensor_file_compare(str(first[name]), str(second[name]), rtol, atol, max_diffs)
            )
    lines += [f"Mismatch: {name} not in {save_dir1}\n" for name in second if name not in first]
    return "".join(lines)


def _files(directory: str) -> dict[str, Path]:
    root = Path(directory)
    return {
        str(path.relative_to(root)): path
        for path in sorted(root.rglob("*"))
        if re.search(r"\.\d+$", path.name)
    }


@command("model_comparator")
def _main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser("model_comparator", "Compares the tensors that two runs of a model have saved.")
    parser.add_argument("--rtol", type=float, default=1e-05)
    parser.add_argument("--atol", type=float, default=1e-08)
    parser.add_argument("--max_diffs", type=int, default=25)
    parser.add_argument("savedir1", help="directory of the first run")
    parser.add_argument("savedir2", help="directory of the second run")
    given = parser.parse_args(arguments)
    for directory in (given.savedir1, given.savedir2):
        if not Path(directory).is_dir():
            raise UserError(f"{directory} is not a directory")
    report = compare(given.savedir1, given.savedir2, given.rtol, given.atol, given.max_diffs)
    print(printable(report), file=sys.stderr, end="")
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(_main())
