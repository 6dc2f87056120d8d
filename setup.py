"""Builds the two native parts of the package; everything else about it is in ``pyproject.toml``.

- ``ftm_lazy._C``: the recorder, all of ``csrc/`` against the headers of the installed PyTorch.
- ``ftm_backend/machine/libftm_machine.so``: the emulator, built by
  ``backend/ftm_backend/machine/build.py``.

PyTorch is found without importing it, in the environment that the package is being installed into,
so that ``pip install .`` works with and without build isolation and downloads no second copy.
Objects are kept in ``build/native`` and compiled again when their command, their source or a header
of theirs has changed. ``MAX_JOBS`` limits the number of compilers that run at once.

``python setup.py build_sanitized`` builds both under address and undefined-behaviour sanitizers,
into a copy of the packages in ``build/sanitized``, whose Python is links; see
``tests/fuzz/sanitized.py`` for how a program runs with it.
"""

import ast
import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from setuptools import Command, Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
OBJECTS = ROOT / "build" / "native"
SANITIZED = ROOT / "build" / "sanitized"
RECORDER = "ftm_lazy._C"
MACHINE = "ftm_backend.machine.libftm_machine"

FLAGS = (
    "-std=c++20 -O2 -g0 -fPIC -fvisibility=hidden -pthread -DNDEBUG -Wall -Wextra -Wno-unused-parameter -Wno-maybe-uninitialized"
    " -DTORCH_API_INCLUDE_EXTENSION_H -DTORCH_EXTENSION_NAME=_C -DUSE_KINETO"
).split()
SANITIZERS = (
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fsanitize-recover=undefined"
    # Elements may lie anywhere in memory of the caller. What is read through null faults anyway;
    # checks of that and of the types of objects take a quarter of the time to compile.
    " -fno-sanitize=alignment,null,vptr"
).split()
# No precompiled header: PyTorch's would be 0.8 GB, take 40 s to make, and save nothing.


class BuildError(RuntimeError):
    """Something that the build needs is missing, or a source does not compile."""


def required_torch() -> str:
    """The version of PyTorch that ``pyproject.toml`` pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [line.split("==")[1] for line in project["dependencies"] if line.startswith("torch==")]
    return pins[0]


def find_torch() -> tuple[Path, str]:
    """The directory of the installed ``torch`` package and its version, checked; raises
    BuildError."""
    wanted = required_torch()
    spec = importlib.util.find_spec("torch")
    candidates = [Path(spec.origin).parent] if spec and spec.origin else []
    # Inside pip's isolated build environment the user's packages are not on sys.path, yet they are
    # there.
    places = [
        sysconfig.get_path("platlib"),
        sysconfig.get_path("purelib"),
        site.getusersitepackages(),
    ]
    candidates += [Path(place) / "torch" for place in places]
    found = next((path for path in candidates if (path / "version.py").is_file()), None)
    if found is None:
        raise BuildError(
            f"PyTorch is not installed in the environment of {sys.executable}.\n"
            f"ftm is built against it: run `pip install torch=={wanted}` first, then install ftm again"
            f" (with --no-build-isolation if your installer builds in another environment)."
        )
    version = _assigned(found / "version.py", "__version__")
    if version.split("+")[0] != wanted:
        raise BuildError(
            f"PyTorch {version} is installed in {found}, but this version of ftm needs {wanted}:"
            f" run `pip install torch=={wanted}` and install ftm again."
        )
    return found, version


def _assigned(file: Path, name: str) -> str:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise BuildError(f"{file} does not set {name}; is this installation of PyTorch whole?")


class Recorder:
    """Compiles and links ``ftm_lazy._C``, with objects in a folder, and flags of compiler and
    linker ``more``."""

    def __init__(
        self, torch: Path, version: str, objects: Path = OBJECTS, more: Sequence[str] = ()
    ) -> None:
        self.objects, self.more = objects, more
        include = torch / "include"
        self.compiler = os.environ.get("CXX", "g++")
        self.libraries = torch / "lib"
        interfaces = [include, include / "torch" / "csrc" / "api" / "include", include / "kineto"]
        system = [*interfaces, sysconfig.get_path("include")]
        self.flags = [
            *FLAGS,
            *more,
            # in the command, so that another PyTorch rebuilds all
            f'-DFTM_TORCH_VERSION="{version}"',
            # "memory/memory_pool.h", while <memory> stays the standard library's
            *("-iquote", str(ROOT / "csrc")),
            f"-I{ROOT / 'backend' / 'ftm_backend' / 'machine' / 'include'}",
            *(word for path in system for word in ("-isystem", str(path))),
        ]

    def build(self, output: Path) -> None:
        """Brings ``output`` up to date with ``csrc/``."""
        folders = sorted({source.parent for source in (ROOT / "csrc").rglob("*.cpp")})
        if not folders:
            raise BuildError(f"no C++ sources in {ROOT / 'csrc'}")
        self.objects.mkdir(parents=True, exist_ok=True)
        wanted = [self.objects / f"{folder.name}.o" for folder in folders]
        units = []
        for folder, target in zip(folders, wanted, strict=True):
            command = [self.compiler, *self.flags, "-c", str(_together(folder, self.objects))]
            if not _is_fresh(target, command, []):
                units.append((command, target, f"csrc/{folder.name}"))
        total = len(units) + 1
        with ThreadPoolExecutor(_jobs()) as pool:
            pending = [
                pool.submit(_run, command, target, f"[{index}/{total}] {name}")
                for index, (command, target, name) in enumerate(units, start=1)
            ]
            for future in pending:
                future.result()
        names = ["c10", "torch_cpu", "torch", "torch_python"]
        link = [
            self.compiler,
            "-shared",
            "-pthread",
            *self.more,
            *map(str, wanted),
            f"-L{self.libraries}",
        ]
        link += [f"-l{name}" for name in names]
        linked = self.objects / "_C.so"
        if not _is_fresh(linked, link, wanted):
            _run(link, linked, f"[{total}/{total}] {RECORDER}")
        _install(linked, output)

    def commands(self) -> list[tuple[Path, list[str]]]:
        """How each source would be compiled by itself, for editors and clang-tidy."""
        return [
            (source, [self.compiler, *self.flags, "-c", str(source)])
            for source in sorted((ROOT / "csrc").rglob("*.cpp"))
        ]


def write_compile_commands(commands: list[tuple[Path, list[str]]]) -> None:
    """Brings ``compile_commands.json`` up to date."""
    entries = [
        {"directory": str(ROOT), "file": str(source), "arguments": command}
        for source, command in commands
    ]
    place, text = ROOT / "compile_commands.json", json.dumps(entries, indent=1) + "\n"
    if not place.exists() or place.read_text() != text:
        place.write_text(text)


def _together(folder: Path, objects: Path) -> Path:
    """The sources of a folder of the recorder as one: PyTorch's headers, nine tenths of the work,
    are read once for all."""
    text = "".join(
        f'#include "{folder.name}/{source.name}"\n' for source in sorted(folder.glob("*.cpp"))
    )
    together = objects / f"{folder.name}.cpp"
    if not together.exists() or together.read_text() != text:
        together.write_text(text)
    return together


def _is_fresh(target: Path, command: list[str], inputs: list[Path]) -> bool:
    """Whether ``target`` was made by this command and is newer than its inputs and included
    headers."""
    record, headers = target.with_name(target.name + ".cmd"), target.with_name(target.name + ".d")
    if not target.exists() or not record.exists() or record.read_text() != "\n".join(command):
        return False
    included = headers.read_text().replace("\\\n", " ").split()[1:] if headers.exists() else []
    made = target.stat().st_mtime_ns
    needed = [*inputs, *map(Path, included)]
    return all(path.exists() and path.stat().st_mtime_ns <= made for path in needed)


def _run(command: list[str], target: Path, label: str) -> None:
    """Runs ``command -o target``; the target appears whole or not at all."""
    partial = target.with_name(target.name + ".partial")
    depends = (
        ["-MMD", "-MF", str(target) + ".d", "-MT", target.name] if "-shared" not in command else []
    )
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *depends, "-o", str(partial)], capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise BuildError(
            f"no C++ compiler {command[0]!r}: install g++ 12 or newer, or set CXX"
        ) from error
    if done.returncode:
        partial.unlink(missing_ok=True)
        raise BuildError(f"{label} failed:\n{done.stderr}\nThe command was: {' '.join(command)}")
    os.replace(partial, target)
    target.with_name(target.name + ".cmd").write_text("\n".join(command))
    print(f"{label}  {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    if done.stderr:
        print(done.stderr, file=sys.stderr, flush=True)


def _jobs() -> int:
    """Compilers to run at once: one a CPU, and no more than memory holds (each may take 2 GB)."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**31
    limit = int(os.environ.get("MAX_JOBS") or min(os.cpu_count() or 1, memory))
    return max(1, limit)


def _install(built: Path, output: Path) -> None:
    """Copies a library into place; a process that has the old one mapped keeps it."""
    if output.exists() and output.stat().st_mtime_ns >= built.stat().st_mtime_ns:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(output.name + ".partial")
    shutil.copy2(built, partial)
    os.replace(partial, output)


def _machine_build() -> ModuleType:
    """The machine's own build script."""
    script = ROOT / "backend" / "ftm_backend" / "machine" / "build.py"
    spec = importlib.util.spec_from_file_location("machine_build", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_machine(output: Path) -> list[tuple[Path, list[str]]]:
    """Brings the emulator's library up to date; returns how each source is compiled."""
    module = _machine_build()
    begin = time.monotonic()
    print("libftm_machine.so ...", file=sys.stderr, flush=True)
    built = module.build(jobs=_jobs())
    print(f"libftm_machine.so  {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    if output.resolve() != built.resolve():
        _install(built, output)
    return module.commands()


def mirror(package: Path, target: Path, libraries: dict[str, Path]) -> None:
    """Makes ``target`` a package whose modules are links to those of ``package``; ``libraries``:
    path in it -> what lies there instead."""
    shutil.rmtree(target, ignore_errors=True)
    for source in sorted(package.rglob("*")):
        path = source.relative_to(package)
        if (
            source.is_file()
            and source.suffix not in (".so", ".pyc", ".o", ".linked")
            and "build" not in path.parts
        ):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).symlink_to(source)
    for path, library in libraries.items():
        (target / path).symlink_to(library)


class BuildNative(build_ext):
    """setuptools' command, with both libraries built by the code above."""

    def build_extensions(self) -> None:
        """Builds what is stale; a BuildError is shown without a traceback."""
        try:
            recorder = Recorder(*find_torch())
            machine = build_machine(self._output(MACHINE))
            recorder.build(self._output(RECORDER))
            write_compile_commands([*recorder.commands(), *machine])
        except RuntimeError as error:
            sys.exit(f"\nerror: {error}")

    def _output(self, name: str) -> Path:
        return Path(self.get_ext_fullpath(name)).resolve()

    def get_ext_filename(self, fullname: str) -> str:
        """The machine is a plain shared library: its file name carries no Python version."""
        if fullname.endswith(MACHINE.rpartition(".")[2]):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)


class BuildSanitized(Command):
    """``build_sanitized``, see above."""

    user_options: ClassVar[list[tuple[str, str, str]]] = []

    def initialize_options(self) -> None:
        """There are none."""

    finalize_options = initialize_options

    def run(self) -> None:
        """Builds what is stale; a BuildError is shown without a traceback."""
        recorder = SANITIZED / "native" / ("_C" + sysconfig.get_config_var("EXT_SUFFIX"))
        try:
            machine = _machine_build().build_sanitized("address")
            Recorder(*find_torch(), recorder.parent, SANITIZERS).build(recorder)
        except RuntimeError as error:
            sys.exit(f"\nerror: {error}")
        mirror(ROOT / "ftm_lazy", SANITIZED / "ftm_lazy", {recorder.name: recorder})
        mirror(
            ROOT / "backend" / "ftm_backend",
            SANITIZED / "ftm_backend",
            {f"machine/{machine.name}": machine},
        )


setup(
    packages=[*find_packages(include=["ftm_lazy", "ftm_lazy.*"]), *find_packages("backend")],
    py_modules=["ftm_autoload"],
    package_dir={"ftm_backend": "backend/ftm_backend"},
    package_data={
        "ftm_backend.conformance": ["models/*.trace"],
        "ftm_backend.machine": ["include/*.h", "*.h"],
        "ftm_lazy": ["py.typed"],
        "ftm_lazy.torch_xla": ["names.tsv", "importable/**/*"],
    },
    ext_modules=[Extension(RECORDER, []), Extension(MACHINE, [])],
    cmdclass={"build_ext": BuildNative, "build_sanitized": BuildSanitized},
)
