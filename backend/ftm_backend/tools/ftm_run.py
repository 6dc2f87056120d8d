"""``ftm run``: runs an assembly file or a packaged model on the machine.

ftm run axpb.lan --in b0=x.npy --out results
ftm run axpb.lan --random --seed 1 --checked
ftm run dump/0003_step --checked     # a folder with program, inputs and expected outputs
ftm run axpb.lan --profile           # modelled cycles of each kernel, without running
ftm run model.lan --in x0=x.npy      # from ftm compile, next to its weights and manifest
ftm run model.ftm --in x0=x.npy      # a packaged model
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ftm_backend import safe_names
from ftm_backend.cli_common import MOST_CORES, Parser, UserError, bounded, command, naming
from ftm_backend.runtime import INSTRUCTION_LIMIT
from ftm_backend.target import presets
from ftm_backend.tools.input_files import is_package
from ftm_backend.tools.run_assembly import run_assembly
from ftm_backend.tools.run_package import read_manifest, run_compiled, run_package

_LARGEST = 2**63 - 1


def parser() -> Parser:
    """Return the command's parser."""
    p = Parser(
        "ftm run",
        "Run a compiled model or an assembly program on the machine.",
        """\
Instead of a file a folder may be given. It has one .lan file, NAME.npy for each input, scalars.json
({"s0": 1.5}) and, if outputs are to be compared, NAME.npy for outputs. bf16 arrays are their bits
in uint16. A .lan file from ftm compile runs as a model, with the weights and manifest next to it.
Exit status: 0 done, 1 outputs differ, 2 wrong usage, a wrong file, or a program that faulted.""",
    )
    p.add_argument(
        "program",
        type=Path,
        help="what `ftm compile` wrote (.lan, .json or .ftm), an assembly program (.lan),"
        " or a folder with one (see below)",
    )
    p.add_argument(
        "--in",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="array for an input; repeat for each",
    )
    p.add_argument(
        "--scalar",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a scalar argument",
    )
    p.add_argument(
        "--random",
        action="store_true",
        help="random values for inputs and scalars that are not given",
    )
    p.add_argument("--seed", type=int, default=0, help="seed of --random (default 0)")
    p.add_argument(
        *("-o", "--output", "--out"),
        dest="out",
        type=Path,
        metavar="DIR",
        help="write each output to DIR/NAME.npy",
    )
    p.add_argument("--compare", type=Path, metavar="DIR", help="compare outputs with DIR/NAME.npy")
    p.add_argument(
        "--rtol", type=float, default=1e-5, help="relative tolerance of comparisons (default 1e-5)"
    )
    p.add_argument(
        "--atol", type=float, default=1e-6, help="absolute tolerance of comparisons (default 1e-6)"
    )
    p.add_argument(
        "--checked",
        action="store_true",
        help="also detect reads of unwritten data and of slots in flight",
    )
    p.add_argument(
        "--instructions",
        type=int,
        default=INSTRUCTION_LIMIT,
        metavar="N",
        help="instructions of a core after which the program counts as endless "
        f"(default {INSTRUCTION_LIMIT:,})",
    )
    p.add_cores("number of cores (default 1)", 1)
    p.add_argument(
        "--profile",
        action="store_true",
        help="print modelled cycles, DMA bytes and utilization of each kernel; run the program "
        "only if inputs are given too",
    )
    p.add_machine("preset to model in --profile (default: the program's own)")
    return p


@command("ftm run")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parser().parse_args(arguments)
    if not 1 <= options.cores <= MOST_CORES:
        raise UserError(
            f"--cores {safe_names.shortened(str(options.cores))}: expected at least one core, "
            f"and at most {MOST_CORES}"
        )
    if options.seed < 0:
        raise UserError(f"--seed {safe_names.shortened(str(options.seed))}: expected 0 or more")
    bounded("--seed", options.seed, 0, _LARGEST)
    bounded("--instructions", options.instructions, 1, _LARGEST)
    if options.machine is not None:
        with naming("--machine", presets.UnknownPreset):
            presets.load(options.machine)
    if is_package(options.program):
        return run_package(options.program, options)
    path, folder = _locate(options.program)
    manifest = read_manifest(path)
    return (
        run_compiled(path, manifest, options)
        if manifest is not None
        else run_assembly(path, folder, options)
    )


def _locate(path: Path) -> tuple[Path, Path | None]:
    """Return the assembly file, and the folder with its data if a folder was given."""
    if path.suffix == ".json":
        program = path.with_suffix(".lan")
        if not program.is_file():
            raise UserError(
                f"{path}: expected a manifest of `ftm compile`, with {program.name} next to it"
            )
        return program, None
    if not path.is_dir():
        return path, None
    found = sorted(path.glob("*.lan"))
    if len(found) != 1:
        raise UserError(
            f"{path} has {len(found)} .lan files; name one of them"
            if found
            else f"{path} has no .lan file"
        )
    return found[0], path


if __name__ == "__main__":
    sys.exit(main())
