"""One process of the fuzzer: makes cases from a seed and tries each, until its time is over.

``worker.py SANITIZER TARGET SEED SECONDS CASE`` writes each case to the file CASE before it is
tried, so that the one that ends the process is known. Exit status 0: all were refused or ran.
``worker.py SANITIZER TARGET --replay CASE`` tries one.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import entries
import images
import programs
import texts
from run import PROGRAMS

from ftm_backend import assembler
from ftm_backend.docgen.example_programs import case as example
from ftm_backend.executable import Executable
from ftm_backend.ir import asm as asm_ir
from ftm_backend.machine.build import sanitized
from ftm_backend.machine.emulator import Machine, MachineError
from ftm_backend.target.instruction_table import INSTRUCTIONS
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache

_SCRATCHPAD = 1 << 18  # bytes that a case may ask for
_MEMORY = 1 << 24
_PATIENCE = 2.0  # seconds, after which a run is interrupted
_INSTRUCTIONS = 20_000
_MACHINES = {
    "address": ((1, False), (1, True), (3, False), (2, True)),
    "thread": ((2, False), (3, False), (8, False), (2, True), (3, True)),
}
"""Cores, and whether in checked mode, for each sanitizer."""


def corpus() -> list[str]:
    """Texts of good programs: those of the folder, and the examples of the instruction table."""
    own = [path.read_text() for path in sorted((Path(__file__).parent / "corpus").glob("*.lan"))]
    return own + [example(row).text for row in INSTRUCTIONS]


class Runner:
    """Machines under sanitizers, in every mode."""

    def __init__(self, kind: str) -> None:
        self.machines = [
            Machine(
                cores=cores,
                checked=checked,
                library=sanitized(kind),
                am_bytes=_SCRATCHPAD,
                sm_bytes=_SCRATCHPAD,
                gsm_bytes=_SCRATCHPAD,
                instructions=_INSTRUCTIONS,
            )
            for cores, checked in _MACHINES[kind]
        ]

    def run(self, image: bytes) -> None:
        """Loads and runs an image; a machine's own errors are right answers."""
        for machine in self.machines:
            try:
                program = machine.load(image)
            except MachineError:
                return
            tensors = (*program.inputs, *program.outputs)
            size = sum(int(np.prod(t.shape, dtype=object)) * t.dtype.itemsize for t in tensors)
            if size + program.arena_bytes > _MEMORY:
                return
            generator = np.random.default_rng(len(image))
            inputs = [generator.integers(0, 5, t.shape).astype(t.dtype) for t in program.inputs]
            donated = [k for k, t in enumerate(program.outputs) if t.alias >= 0]
            donated = (
                donated if len({program.outputs[k].alias for k in donated}) == len(donated) else []
            )
            try:
                job = program.submit(inputs, [3] * len(program.scalars), donate=donated)
                if not job.done(_PATIENCE):
                    job.interrupt()
                job.wait()
            except (MachineError, ValueError):
                continue


def image_target(kind: str) -> tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]:
    """Images, loaded and run."""
    known, runner = [images.Image.read(assembler.assemble(text)) for text in corpus()], Runner(kind)
    return lambda rng: images.mutate(rng, known), runner.run


def text_target(kind: str) -> tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]:
    """Assembly texts: assembled or refused with a place, then run."""
    known, runner = corpus(), Runner(kind)

    def attempt(data: bytes) -> None:
        try:
            image = assembler.assemble(data.decode("utf-8", "surrogatepass"))
        except asm_ir.AsmError as error:
            str(error)
            return
        runner.run(image)

    return lambda rng: texts.mutate(rng, known).encode("utf-8", "surrogatepass"), attempt


def entry_target(kind: str) -> tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]:
    """Files of the cache: found whole, or removed with a warning."""
    warnings.simplefilter("ignore")
    disk = DiskCache(Path(tempfile.mkdtemp()), 1 << 24)
    key = CacheKey("trace", "compiler", "host", 2)
    asm = corpus()[0]
    good = Executable(
        assembler.assemble(asm),
        asm,
        "host",
        {"trace": "trace\n", "linalg": "module {}\n", "asm": asm},
    ).to_bytes()
    runner = Runner(kind)

    def attempt(data: bytes) -> None:
        disk.put(key, data)
        found = disk.get(key)
        assert found == data
        try:
            executable = Executable.from_bytes(found)
        except ValueError:
            return
        runner.run(executable.image)

    return lambda rng: entries.mutate(rng, good), attempt


def program_target(kind: str) -> tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]:
    """What the compiler made, see ``programs.py``: runs, and gives what PyTorch gave."""
    machines = {cores: Machine(cores=cores, library=sanitized(kind)) for cores in programs.CORES}
    known = [path.read_bytes() for path in sorted(PROGRAMS.glob("*.npz"))]
    return lambda rng: rng.choice(known), lambda data: programs.attempt(machines, data)


def recording_target(kind: str) -> tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]:
    """Recorded programs, run on the CPU and on ftm."""
    from ftm_lazy import _C
    from fuzz import recordings

    assert ("sanitized" in _C.__file__) == (kind == "recorder"), _C.__file__
    return recordings.make, recordings.attempt


TARGETS = {
    "images": image_target,
    "texts": text_target,
    "entries": entry_target,
    "programs": program_target,
    "recordings": recording_target,
}


def main(words: list[str]) -> int:
    """See the module's text."""
    make, attempt = TARGETS[words[1]](words[0])
    if words[2] == "--replay":
        attempt(Path(words[3]).read_bytes())
        return 0
    rng, end, place, tried = (
        random.Random(int(words[2])),
        time.monotonic() + float(words[3]),
        Path(words[4]),
        0,
    )
    while time.monotonic() < end:
        data = make(rng)
        place.write_bytes(data)
        attempt(data)
        tried += 1
    print(tried, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
