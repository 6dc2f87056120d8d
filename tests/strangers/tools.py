"""Campaign: commands with invalid files and options, none may end with a traceback.

A case is a command, random options, and a file: whole, of another kind, cut off, with bytes
changed, empty, binary, a directory, a device, a pipe, or missing. Packages and manifests also come
with checksums that fit and contents that do not.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ftm_backend.runtime import package_file
from ftm_backend.tools import ftm
from strangers import campaign

COMMANDS = tuple(ftm.COMMANDS)
RARELY = {"compile", "conformance", "info", "completion"}
"""Commands that take long, or that have little to get wrong."""

FINDINGS = {"run", "conformance", "migrate", "cache"}
"""Commands that may end with 1, as a comparison that finds a difference."""

PRINT_PROGRAMS = {"opt", "translate"}
"""Commands whose standard output is a program, byte by byte."""

SLOW = 60.0
"""Seconds of processor time that no case may take."""

NUMBERS = (
    "0",
    "1",
    "-1",
    "3",
    "99",
    "257",
    "4294967297",
    str(2**63),
    "9" * 5000,
    "1.5",
    "nan",
    "x",
    "",
    "\x1b[31m",
)
NAMES = (
    "../../x",
    "/tmp/x",
    "..",
    "a/b",
    "",
    "\x1b[31mred",
    "n\0l",
    "x" * 300,
    "\u202ereversed",
    "\udc80",
    "o0",
    "x",
)
SHAPES = ([2**47], [-1], [2, 4], [], [2**33, 2**33], "x", None, [1.5], [1] * 100)

AXPB = """\
@program axpb, host
@in b0, f32, 2x4
@scalar s0, f64
@out o0, f32, 2x4
@func main
  @tile X, am, f32, 2x4, 1, 0
    DLD b0[0], 2@4 | 4@1, X
    DWAIT X
    @map 2 x 4, X:v0 -> X:v0
      VFMA.F32 v0, s0, 1.0, v0
    @endmap
    DST X, o0[0], 2@4 | 4@1
@ret
"""
ENDLESS = AXPB.replace(
    "    DWAIT X\n", "    DWAIT X\n    SMOV 1, r1\n  LOOP_a: 1, 2\n    [r1] SBR LOOP_a\n"
)
TRACE = """\
trace
  %0 = param f32[2,4]
  %1 = aten::relu(self=%0) : f32[2,4]
  return %1
"""


@functools.cache
def samples() -> Path:
    """A directory with a good file of every kind, and what no command should read."""
    import torch
    from torch import nn

    import ftm_lazy

    folder = Path(tempfile.mkdtemp(prefix="ftm-strangers-"))
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    exported = torch.export.export(model, (x,))
    torch.export.save(exported, folder / "model.pt2")
    torch.jit.save(torch.jit.script(model), folder / "scripted.pt")
    torch.save(model.state_dict(), folder / "state.pt")
    ftm_lazy.package(exported, folder / "model.ftm")
    ftm_lazy.FTMCompiler().compile_to_lasm(exported, output_path=folder / "compiled.lan")
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "x64.npy", x.double().numpy())
    (folder / "axpb.lan").write_text(AXPB)
    (folder / "endless.lan").write_text(ENDLESS)
    (folder / "step.trace").write_text(TRACE)
    (folder / "linalg.mlir").write_text(
        ftm_lazy.FTMCompiler().compile_to_mlir(exported, dialect="linalg")
    )
    (folder / "program.py").write_text("import torch_xla.core.xla_model as xm\nxm.mark_step()\n")
    (folder / "object.json").write_text('{"op mm": "slow", "s0": 1.0}')
    (folder / "libx.so").write_bytes(b"\x7fELF" + bytes(60))
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return folder


def strange_file(random: Random, folder: Path) -> str:
    """A file for a command: half of them as they should be."""
    good = sorted(path for path in samples().iterdir() if path.is_file())
    source = random.choice(good)
    match random.randrange(12):
        case 0:
            return random.choice(
                [
                    "/dev/zero",
                    "/dev/null",
                    "missing.lan",
                    str(samples() / "pipe"),
                    str(samples() / "folder"),
                    "-",
                    "n\0l",
                ]
            )
        case 1 | 2 | 3:
            data = bytearray(source.read_bytes())
            if random.random() < 0.5:
                del data[random.randrange(len(data) + 1) :]
            else:
                for _ in range(random.randrange(1, 9) if data else 0):
                    data[random.randrange(len(data))] = random.randrange(256)
            target = folder / f"damaged{source.suffix}"
            target.write_bytes(data)
            return str(target)
        case 4:
            target = (
                folder
                / f"bytes{random.choice(['.lan', '.ftm', '.pt', '.pt2', '.npy', '.py', '.so'])}"
            )
            target.write_bytes(
                random.choice([random.randbytes, lambda n: b"a" * n])(random.randrange(3000))
            )
            return str(target)
        case 5 | 6:
            return (
                hostile_package(random, folder)
                if random.random() < 0.5
                else hostile_assembly(random, folder)
            )
        case 7:
            target = folder / "\x1b[31m\udc80.lan"
            target.write_text(AXPB[: random.randrange(len(AXPB))])
            return str(target)
    return str(source)


def hostile_package(random: Random, folder: Path) -> str:
    """A package whose checksums fit."""
    sections: dict[str, Any] = dict(package_file.read(samples() / "model.ftm"))
    manifest = json.loads(sections["manifest"].tobytes())
    change(random, manifest)
    sections["manifest"] = json.dumps(manifest).encode()
    if random.random() < 0.2:
        sections.pop(random.choice(list(sections)))
    target = folder / "hostile.ftm"
    package_file.write(target, sections)
    return str(target)


def hostile_assembly(random: Random, folder: Path) -> str:
    """Assembly with weights and a manifest that do not fit."""
    for suffix in (".lan", ".npz", ".json"):
        (folder / f"hostile{suffix}").write_bytes((samples() / f"compiled{suffix}").read_bytes())
    manifest = json.loads((folder / "hostile.json").read_text())
    change(random, manifest)
    (folder / "hostile.json").write_text(json.dumps(manifest))
    if random.random() < 0.3:
        weights = folder / "hostile.npz"
        weights.write_bytes(weights.read_bytes()[: random.randrange(500)])
    return str(folder / "hostile.lan")


def change(random: Random, value: Any) -> None:
    """Puts something else somewhere into a JSON value."""
    places = [(value, key) for key in (value if isinstance(value, dict) else range(len(value)))]
    if not places:
        return
    holder, key = random.choice(places)
    if isinstance(holder[key], (dict, list)) and random.random() < 0.8:
        change(random, holder[key])
    else:
        holder[key] = random.choice([*NAMES, *SHAPES, 7, 2**62, -1, True, {}, [[]]])


def command_line(random: Random, command: str, folder: Path) -> list[str]:
    """Options and files, which may be wrong."""
    file, other = strange_file(random, folder), strange_file(random, folder)
    number = random.choice(NUMBERS)
    machine = random.choice(["host", "m7032", "mt3000", "nope", ""])
    out = random.choice([str(folder / "out"), "/dev/full", str(folder), "/nowhere/x", "-"])
    options = {
        "run": [
            ["--random"], ["--random"], ["--random"], [f"--in=x={other}"], [f"--in=b0={other}"], [f"--in={other}"], [f"--scalar=s0={number}"],
            [f"--out={out}"], [f"--compare={other}"], [f"--cores={number}"], [f"--seed={number}"], ["--checked"], ["--profile"],
            [f"--machine={machine}"], [f"--rtol={number}"], ["--instructions=1000000"], [f"--instructions={number}"],
        ],
        "opt": [
            ["--ftm-pipeline"], ["--fuse-ops"], ["--assign-buffers"], ["--emit-assembly"], ["--list-passes"], ["--no-verify"],
            ["--pass-pipeline=builtin.module(canonicalize)"], [f"--pass-pipeline={number}"], [f"-o{out}"], [f"--machine={machine}"],
            [f"--cores={number}"],
        ],
        "translate": [
            ["--from", random.choice(["trace", "torch", "linalg", "asm", "nope"])], ["--to", random.choice(["torch", "asm", "image", ""])],
            [f"-o{out}"], [f"--machine={machine}"], [f"--cores={number}"], [f"--dump={out}"],
        ],
        "profile": [
            [f"--machine={machine}"], [f"--cores={number}"], ["--json"], [f"--svg={out}"], [f"--chrome={out}"], [f"--core={number}"],
            [f"--instructions={number}"], [f"--window=0:{number}"], [f"--window={number}"], [f"--compare={other}"], [f"--compare-machine={machine}"],
        ],
        "conformance": [[f"--preset={machine}"], [f"--cores={number}"], [f"--expected={other}"], ["--json"], [f"--output={out}"]],
        "compile": [
            ["--to", random.choice(["lasm", "package", "torch", "linalg", "tosa", "stablehlo", "ftm", "x"])], [f"-o{folder / 'o'}"], [f"-o{out}"],
            [f"--input=f32[{number}]"], ["--input=f32[2,4]"], [f"--input={number}"], [f"--machine={machine}"],
            ["--weights", random.choice(["npz", "safetensors", "x"])],
        ],
        "migrate": [["--check"], ["--write"], [other]],
        "cache": [[f"--size={number}"], [f"--days={number}"], ["--remove"], ["--json"], [other]],
        "info": [["--json"], ["-q"], [other], [f"--machine={machine}"]],
        "completion": [["-v"], [other]],
    }[command]  # fmt: skip
    chosen = [
        word
        for words in random.sample(options, random.randrange(min(5, len(options))))
        for word in words
    ]
    if command == "conformance":
        chosen.append(f"--only={random.choice(['op mm f32', 'nothing', 'instruction SMOV'])}")
    if command == "migrate" and Path(file).parent == samples():  # it may write
        chosen = [word for word in chosen if word != "--write"]
    if command in ("run", "profile") and not any(
        word.startswith("--instructions") for word in chosen
    ):
        chosen.append("--instructions=100000")  # the default stops an endless program late
    if command == "cache":
        action = random.choice(["list", "verify", "prune", "export", "import", file])
        return [
            action,
            *([str(folder / "c.tar")] if action == "export" else [file]),
            *chosen,
            f"--dir={folder / 'cache'}",
        ]
    if command == "info":
        return chosen
    if command == "completion":
        return [random.choice(["bash", "zsh", "fish", "tcsh", file]), *chosen]
    return [file, *chosen]


def run(command: str, words: list[str], folder: Path) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace"), io.StringIO()
    before = Path.cwd(), sys.stdin
    os.chdir(folder)
    sys.stdin = io.TextIOWrapper(io.BytesIO(AXPB.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = ftm.main([command, *words])
            except SystemExit as ended:  # argparse
                status = ended.code
    finally:
        os.chdir(before[0])
        sys.stdin = before[1]
    out.flush()
    return status, out.buffer.getvalue().decode(errors="replace"), err.getvalue()


SHELL = ("| head -c 0", ">&-", "<&-", "> /dev/full", "2>&- >&-")


def run_in_shell(
    random: Random, command: str, words: list[str], folder: Path
) -> tuple[int, str, str]:
    """The same by a shell that closes a stream; status 0 where it hides that of the command."""
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    script = f"{sys.executable} -m ftm_backend.tools.ftm {command} {quoted} {random.choice(SHELL)}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        capture_output=True,
        timeout=10 * SLOW,
        stdin=subprocess.DEVNULL,
    )
    return (
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )


def cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended. On a busy machine, a
    command waits for minutes."""
    return sum(os.times()[:4])


def check(random: Random, share_in_shell: float = 0.02) -> str | None:
    """One command line; what is wrong with how it ended, or None."""
    command = random.choice([name for name in COMMANDS for _ in range(1 if name in RARELY else 3)])
    with tempfile.TemporaryDirectory(prefix="ftm-strangers-") as made:
        folder = Path(made) / "a" / "b"
        folder.mkdir(parents=True)
        words = command_line(random, command, folder)
        in_shell = random.random() < share_in_shell and not any("\0" in word for word in words)
        begin = cpu_seconds()
        status, out, err = (
            run_in_shell(random, command, words, folder)
            if in_shell
            else run(command, words, folder)
        )
        seconds = cpu_seconds() - begin
        outside = [
            str(path)
            for path in Path(made).rglob("*")
            if folder not in path.parents and path not in (folder, folder.parent)
        ]
    shown = f"{command} {words}: status {status}, {err[-1500:]!r}"
    allowed = {0, 2} | ({1} if command in FINDINGS else set()) | ({141} if in_shell else set())
    if status not in allowed:
        return f"status {status}: {shown}"
    if "Traceback" in err or "failed inside" in err or "Exception ignored" in err:
        return f"an error that nothing foresaw: {shown}"
    if "\x1b" in err or ("\x1b" in out and command not in PRINT_PROGRAMS):
        return f"an escape sequence: {shown}"
    if status == 2 and not in_shell and not is_named(words, err):
        return f"the message names nothing: {shown}"
    if outside:
        return f"wrote {outside}: {shown}"
    if seconds > SLOW:
        return f"took {seconds:.0f} s of processor time: {shown}"
    return None


def is_named(words: list[str], err: str) -> bool:
    """Whether the message has a file or an option of the command line in it."""
    parts = [
        part
        for word in words
        for part in (
            word,
            word.removeprefix("-o"),
            *word.split("="),
            word.removesuffix(".lan"),
            word.removesuffix(".json"),
        )
        if part
    ]
    return (
        any(
            part.encode("unicode_escape").decode()[:150] in err or part[:150] in err
            for part in parts
        )
        or "standard" in err
    )


if __name__ == "__main__":
    campaign.main("tools", check, count=5000)
