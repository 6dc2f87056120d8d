"""``ftm profile``: a program's cost, modelled on a machine and measured here, by kernel."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ftm_backend.cli_common import MOST_CORES, Parser, UserError, bounded, command, naming, say
from ftm_backend.machine import MachineError
from ftm_backend.perf_model import cycle_model, data_parallel_scaling
from ftm_backend.target import presets
from ftm_backend.tools.input_files import read_assembly, write
from ftm_backend.tools.measured_run import measure
from ftm_backend.tools.timeline_svg import chrome_trace, html, svg

_TITLE = 44
"""Characters of a kernel's title."""

_EPILOG = """\
examples:
  ftm profile step.lan --machine m7032                      a table of kernels
  ftm profile step.trace --machine m7032 --cores 8          compiles first, from any stage's text
  ftm profile dump/0003_step --svg step.svg --window 0:90000
  ftm profile step.trace --machine m7032 --measure          also the time on this host
  ftm profile step.trace --html step.html                   table and timeline of all cores
  ftm profile a.lan --compare b.lan                         two programs
  ftm profile step.trace --machine m7032 --compare-machine mt3000
  ftm profile step.trace --machine m7032 --ranks 4096       a step of DDP and FSDP2 on 2 to 4096

`bound` is the bottleneck of the busiest core: compute, issue (scalar work), DMA, or GSM. `least` is
the bytes of DDR that a kernel must move: each buffer, or the part that it accesses, once. The
roofline is the larger of the time of the operations at peak and of the least bytes at full
bandwidth."""


def parser() -> Parser:
    """Return the command's parser."""
    p = Parser(
        "ftm profile",
        "Show the modelled cost of a program on a machine, kernel by kernel.",
        _EPILOG,
    )
    p.add_argument(
        "program",
        type=Path,
        help="a .lan or .ftm file, the text of any earlier stage, or a folder that holds one",
    )
    p.add_machine("preset (default: the program's own; host for earlier stages)")
    p.add_cores("number of cores (default: the preset's)", 0)
    p.add_argument(
        "--instructions",
        type=int,
        default=cycle_model.WALK_LIMIT,
        metavar="N",
        help="instructions of all cores after which the program counts as endless "
        f"(default {cycle_model.WALK_LIMIT:,})",
    )
    p.add_json()
    p.add_argument(
        "--measure",
        action="store_true",
        help="also run the program on this host, with random data, and show each kernel's time",
    )
    p.add_argument("--svg", type=Path, metavar="FILE", help="draw the timeline of the cores")
    p.add_argument("--html", type=Path, metavar="FILE", help="write table and timeline as HTML")
    p.add_argument(
        "--chrome", type=Path, metavar="FILE", help="write the timeline as a Chrome trace"
    )
    p.add_argument("--core", type=int, help="the only core in the picture (default: all)")
    p.add_argument(
        "--window", metavar="FIRST:LAST", help="cycles that the picture shows (default: all)"
    )
    p.add_argument("--compare", type=Path, metavar="PROGRAM", help="compare with another program")
    p.add_argument("--compare-machine", metavar="PRESET", help="compare with another machine")
    p.add_argument(
        "--ranks",
        type=int,
        metavar="N",
        help="show the cost of a recorded step of DDP on 2 to N machines, and of FSDP2",
    )
    return p


@command("ftm profile")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 for wrong usage or a wrong file."""
    given = parser().parse_args(arguments)
    bounded("--cores", given.cores, 0, MOST_CORES)
    bounded("--core", given.core or 0, 0, MOST_CORES - 1)
    bounded("--instructions", given.instructions, 1, 2**63 - 1)
    window = _window(given.window)
    draws = bool(given.svg or given.html or given.chrome)
    if given.ranks is not None and (given.compare or given.compare_machine or given.measure):
        raise UserError("--ranks cannot be combined with --compare, --compare-machine or --measure")
    profile = _profile(given.program, given.machine, given, draws)
    if given.core is not None and given.core >= profile.cores:
        raise UserError(
            f"--core {given.core}: {given.program} is modelled on {profile.cores} cores, "
            "counted from 0"
        )
    _draw(profile, window, given)
    if given.ranks is not None:
        say(_scaling(profile, given))
    elif given.compare or given.compare_machine:
        other = _profile(
            given.compare or given.program, given.compare_machine or given.machine, given, False
        )
        say(_json([profile, other]) if given.json else comparison(profile, other))
    else:
        say(_json([profile]) if given.json else profile.table())
    return 0


def _draw(
    profile: cycle_model.CycleProfile,
    window: tuple[float, float] | None,
    given: argparse.Namespace,
) -> None:
    if given.svg:
        cores = None if given.core is None else [given.core]
        write(given.svg, svg(profile, window, cores))
    if given.html:
        write(given.html, html(profile, window))
    if given.chrome:
        write(given.chrome, chrome_trace(profile))


def _scaling(profile: cycle_model.CycleProfile, given: argparse.Namespace) -> str:
    machine = presets.load(profile.machine)
    bounded("--ranks", given.ranks, 2, machine.fabric.ranks)
    with naming(given.program, data_parallel_scaling.NoCollectivesError):
        found = data_parallel_scaling.scaling(
            profile, machine, data_parallel_scaling.rank_counts(given.ranks)
        )
    if given.json:
        return json.dumps(data_parallel_scaling.as_json(profile, machine, found), indent=1)
    return data_parallel_scaling.table(profile, machine, found)


def _window(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    first, separator, last = text.partition(":")
    try:
        window = float(first), float(last)
    except ValueError:
        raise UserError(
            f"--window takes two numbers of cycles, as in 0:90000, not {text!r}"
        ) from None
    if not separator or not -math.inf < window[0] < window[1] < math.inf:
        raise UserError(f"--window {text}: expected FIRST:LAST with FIRST before LAST")
    return window


def _profile(
    path: Path, machine: str | None, given: argparse.Namespace, watch: bool
) -> cycle_model.CycleProfile:
    file = _file(path)
    with naming("--machine", presets.UnknownPreset):
        parameters = presets.load(machine) if machine else None
    text = read_assembly(file)
    with naming(file, cycle_model.WalkError, ValueError):
        if not text.lstrip().startswith("@program"):
            text = _compiled(text, machine or presets.DEFAULT, given.cores)
        profile = cycle_model.model(
            text,
            machine=parameters,
            cores=given.cores or None,
            limit=given.instructions,
            watch=watch,
        )
    if given.measure:
        with naming(f"--measure: {file}", MachineError):
            return profile.with_measured(measure(text, profile.cores, given.instructions))
    return profile


def _compiled(text: str, machine: str, cores: int) -> str:
    """Compile the text of an earlier stage; that of a trace gives kernels their names."""
    from ftm_backend import compiler_stages, driver
    from ftm_backend.compile_options import CompileOptions

    options = CompileOptions(machine=machine, cores=cores)
    try:
        stage = compiler_stages.guess_stage(text)
        if stage == "trace":
            return driver.compile(text, options).named_asm(text)
        return str(driver.run_from(stage, text, "asm", options))
    except driver.CompileError as error:
        raise ValueError(str(error)) from error


def _file(path: Path) -> Path:
    """Return the program at ``path``; for a folder its only .lan file, else its only .trace."""
    if not path.is_dir():
        return path
    for suffix in (".lan", ".trace"):
        found = sorted(path.glob(f"*{suffix}"))
        if len(found) > 1:
            raise UserError(
                f"{path} holds several {suffix} files: name one of "
                f"{', '.join(f.name for f in found)}"
            )
        if found:
            return found[0]
    raise UserError(f"{path} holds neither a .lan nor a .trace file")


def comparison(a: cycle_model.CycleProfile, b: cycle_model.CycleProfile) -> str:
    """Return a table of two profiles, with kernels matched by name."""
    lines = [
        f"A: modelled on {a.machine}, {a.cores} cores; B: modelled on {b.machine}, {b.cores} cores",
        f"{'kernel':{_TITLE}} {'ms A':>11} {'ms B':>11} {'B / A':>7} {'bytes A':>13} "
        f"{'bytes B':>13} {'peak A':>7} {'peak B':>7}",
    ]
    named = [{kernel.name: kernel for kernel in profile.kernels} for profile in (a, b)]
    for name in dict.fromkeys([*named[0], *named[1]]):
        pair = [kernels.get(name) for kernels in named]
        times = [
            kernel.cycles / profile.clock_hz * 1e3 if kernel else None
            for kernel, profile in zip(pair, (a, b), strict=True)
        ]
        lines.append(
            _compared(
                next(kernel.title for kernel in pair if kernel),
                times,
                [k.dma_bytes if k else None for k in pair],
                [k.utilisation if k else None for k in pair],
            )
        )
    lines.append(
        _compared(
            "all",
            [p.seconds * 1e3 for p in (a, b)],
            [p.dma_bytes for p in (a, b)],
            [p.utilisation for p in (a, b)],
        )
    )
    return "\n".join(lines)


def _compared(
    name: str,
    times: Sequence[float | None],
    moved: Sequence[int | None],
    peak: Sequence[float | None],
) -> str:
    ratio = f"{times[1] / times[0]:7.3f}" if times[0] and times[1] else f"{'-':>7}"
    return (
        f"{name[:_TITLE]:{_TITLE}} {_or_dash(times[0], '11.4f')} "
        f"{_or_dash(times[1], '11.4f')} {ratio} {_or_dash(moved[0], '13d')} "
        f"{_or_dash(moved[1], '13d')} {_or_dash(peak[0], '7.1%')} {_or_dash(peak[1], '7.1%')}"
    )


def _or_dash(value: float | None, form: str) -> str:
    return (
        format(value, form)
        if value is not None
        else "-".rjust(int(form.split(".", maxsplit=1)[0].rstrip("d%f")))
    )


def _json(profiles: Sequence[cycle_model.CycleProfile]) -> str:
    listed = []
    for profile in profiles:
        listed.append(
            {
                "modelled": True,
                "machine": profile.machine,
                "cores": profile.cores,
                "cycles": profile.cycles,
                "seconds": profile.seconds,
                "dma_bytes": profile.dma_bytes,
                "least_bytes": profile.least_bytes,
                "flops": profile.flops,
                "of_peak": profile.utilisation,
                "of_roofline": profile.roofline,
                "kernels": [
                    {**asdict(kernel), "bound": kernel.bound} for kernel in profile.kernels
                ],
            }
        )
    return json.dumps(listed[0] if len(listed) == 1 else listed, indent=1)


if __name__ == "__main__":
    sys.exit(main())
