"""Run this folder's programs in the three supported ways and on the CPU; compare their losses.

    python examples/torch_xla_programs/compare.py                            # 50 steps each
    python examples/torch_xla_programs/compare.py --steps 500 resnet fsdp

The ways are those of docs/torch_xla.md: with other imports, unchanged, and migrated by ftm-migrate.
On the CPU the migrated program runs with another device name, in one process with the whole batch.
"""

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = sorted(file.stem for file in HERE.glob("*.py") if file.name != Path(__file__).name)
WAYS = {"cpu": "on the CPU", "1": "other imports", "2": "unchanged", "3": "migrated"}
LAUNCHED = "fsdp"
"""The program whose number of processes is said from outside."""


def with_other_imports(text: str) -> str:
    """The source of a program with the imports of way 1."""
    text = re.sub(
        r"^import torch_xla$", "import ftm_lazy.torch_xla as torch_xla", text, flags=re.MULTILINE
    )
    return re.sub(r"^(import|from) torch_xla\b", r"\1 ftm_lazy.torch_xla", text, flags=re.MULTILINE)


def write_programs(way: str, programs: list[str], directory: Path) -> None:
    """Writes the sources of a way into `directory`."""
    for program in programs:
        text = (HERE / f"{program}.py").read_text()
        (directory / f"{program}.py").write_text(with_other_imports(text) if way == "1" else text)
    if way in ("3", "cpu"):
        subprocess.run(
            [sys.executable, "-m", "ftm_lazy.migrate", "--write", directory],
            check=True,
            capture_output=True,
        )
    if way == "cpu":
        for program in programs:
            file = directory / f"{program}.py"
            file.write_text(file.read_text().replace('"ftm"', '"cpu"'))


def arguments(way: str, program: str, steps: int, directory: Path) -> list[str]:
    """The command line of a program."""
    given = [f"--losses={directory / program}.json", f"--steps={steps}", f"--log-steps={steps}"]
    alone = way == "cpu"
    if program == "data_parallel":
        given.append(f"--processes={1 if alone else 2}")
    if program == "fsdp":
        given += [f"--directory={directory}", *(["--whole"] if alone else [])]
    if program == "step_trace" and not alone:
        given.append(f"--logdir={directory}")
    return given


def losses_by(way: str, programs: list[str], steps: int) -> dict[str, list[float]]:
    """The loss of each step of each program; raises CalledProcessError if one fails."""
    python = [
        sys.executable,
        "-W",
        "ignore::DeprecationWarning",
        *(("-m", "ftm_lazy.torch_xla") if way == "2" else ()),
    ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_programs(way, programs, directory)
        together = [program for program in programs if program != LAUNCHED or way == "cpu"]
        lines = [
            [str(directory / f"{program}.py"), *arguments(way, program, steps, directory)]
            for program in together
        ]
        if lines:
            _run([*python, __file__, "--lines", json.dumps(lines)], directory)
        if LAUNCHED in programs and LAUNCHED not in together:
            command = [f"{directory / LAUNCHED}.py", *arguments(way, LAUNCHED, steps, directory)]
            _run(
                [*(torchrun if way == "3" else python), *command],
                directory,
                CPU_NUM_DEVICES="2",
                FTM_CORES="1",
            )
        return {
            program: json.loads((directory / f"{program}.json").read_text()) for program in programs
        }


def _run(command: list[str], directory: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()


def difference(losses: list[float], expected: list[float]) -> float:
    """The greatest difference at one step; infinite if there are more steps or fewer."""
    if len(losses) != len(expected):
        return float("inf")
    return max(abs(a - b) for a, b in zip(losses, expected, strict=True))


def run_lines(lines: list[list[str]]) -> None:
    """Run programs in sequence in this process, each as ``python PROGRAM ARGUMENTS``."""
    for program, *given in lines:
        sys.argv = [program, *given]
        runpy.run_path(program, run_name="__main__")


def main() -> int:
    """Prints the table; 1 if a loss is more than 1e-3 from that of the CPU."""
    parser = argparse.ArgumentParser(
        description="Compare the ways of running programs of torch_xla."
    )
    parser.add_argument(
        "programs", nargs="*", choices=[*PROGRAMS, []], help="those to run; all by default"
    )
    parser.add_argument("--steps", type=int, default=50)
    # what a process of a way runs
    parser.add_argument("--lines", type=json.loads, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.lines:
        run_lines(flags.lines)
        return 0
    programs = flags.programs or PROGRAMS
    losses = {way: losses_by(way, programs, flags.steps) for way in WAYS}
    print(f"greatest difference from the CPU's loss in {flags.steps} steps, and the last loss")
    print(f"{'':24}" + "".join(f"{name:>15}" for name in [*list(WAYS.values())[1:], "last loss"]))
    worst = 0.0
    for program in programs:
        differences = [
            difference(losses[way][program], losses["cpu"][program]) for way in list(WAYS)[1:]
        ]
        worst = max(worst, *differences)
        print(
            f"{program:24}"
            + "".join(f"{each:15.1e}" for each in differences)
            + f"{losses['cpu'][program][-1]:15.4f}"
        )
    return int(worst > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
