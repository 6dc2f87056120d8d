"""Build the two native parts of the package; everything else about it is in ``pyproject.toml``.

- ``ftm_lazy._C``: the recorder, all of ``csrc/`` against the headers of the installed PyTorch.
- ``ftm_backend/machine/libftm_machine.so``: the emulator, built by
  ``backend/ftm_backend/machine/build.py``.

PyTorch is found, without importing it, in the environment into which the package is installed. So
``pip install .`` works with and without build isolation and downloads no second copy.

A wheel serves the version of PyTorch that it was built for. It requires exactly this version, and
has it in ``ftm_lazy/build_record.json``, which is checked before the recorder is loaded.
``ftm_lazy/torch_version/supported.py`` lists the versions to build for. ``TORCH_IN_VERSION=1``, as
in ``make wheel``, gives each of these wheels a version of its own: 0.1.0.post21401 is 0.1.0 for
PyTorch 2.14.1. pip looks at one wheel per version only, so it would not find the others.

Objects are kept in ``build/native`` and recompiled if their command, source or headers change.
``MAX_JOBS`` limits the number of compilers that run in parallel.

``python setup.py build_sanitized`` builds both parts with address and undefined-behaviour
sanitizers, into a copy of the packages in ``build/sanitized`` whose Python files are links.
``tests/fuzz/sanitized.py`` runs programs with it.
"""

import ast
import importlib.util
import json
import os
import re
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

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

FLAGS = (
    "-std=c++20 -O2 -g0 -fPIC -fvisibility=hidden -pthread -DNDEBUG"
    " -Wall -Wextra -Wno-unused-parameter -Wno-maybe-uninitialized"
    " -DTORCH_API_INCLUDE_EXTENSION_H -DTORCH_EXTENSION_NAME=_C -DUSE_KINETO"
    # PyTorch's headers declare the operators that they use, instead of all 2,700.
    " -DAT_PER_OPERATOR_HEADERS"
).split()
SANITIZERS = (
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fsanitize-recover=undefined"
    # The caller's memory need not be aligned. Reads through null fault in any case; checking these
    # and the types of objects takes a quarter of the compile time.
    " -fno-sanitize=alignment,null,vptr"
).split()
PRECOMPILED = "torch/csrc/lazy/core/ir.h", "torch/csrc/lazy/core/tensor.h", "torch/library.h"
"""Headers of PyTorch that nearly all sources include.

A compiler reads them in 9 s, of 14 s for a small folder. They are precompiled once, in 25 s and
0.4 GB.
"""


class BuildError(RuntimeError):
    """The build lacks a requirement, or a source does not compile."""


def _load(path: Path) -> ModuleType:
    """Import a file of the package without the package, which needs PyTorch."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TORCH_VERSIONS = _load(ROOT / "ftm_lazy" / "torch_version" / "supported.py")


def find_torch() -> tuple[Path, str]:
    """Find the installed PyTorch.

    Returns:
        The directory of the package ``torch``, and its version.

    Raises:
        BuildError: PyTorch is not installed, or in a version that is not supported.
    """
    wanted = TORCH_VERSIONS.SUPPORTED
    spec = importlib.util.find_spec("torch")
    candidates = [Path(spec.origin).parent] if spec and spec.origin else []
    # In pip's isolated build environment the user's packages are installed, but not on sys.path.
    folders = [
        sysconfig.get_path("platlib"),
        sysconfig.get_path("purelib"),
        site.getusersitepackages(),
    ]
    candidates += [Path(folder) / "torch" for folder in folders]
    found = next((path for path in candidates if (path / "version.py").is_file()), None)
    if found is None:
        raise BuildError(
            f"PyTorch is not installed in the environment of {sys.executable}.\n"
            f"ftm is built against it: run `pip install torch=={wanted[0]}` first, then install ftm"
            f" again (with --no-build-isolation if your installer builds in another environment)."
        )
    version = _assigned(found / "version.py", "__version__")
    if TORCH_VERSIONS.release(version) not in wanted:
        raise BuildError(
            f"PyTorch {version} is installed in {found}, but this version of ftm needs"
            f" {' or '.join(wanted)}: run `pip install torch=={wanted[0]}` and install ftm again."
        )
    return found, version


def _assigned(file: Path, name: str) -> str:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise BuildError(f"{file} does not set {name}; is this installation of PyTorch whole?")


class Recorder:
    """Compiles and links ``ftm_lazy._C``."""

    def __init__(
        self, torch: Path, version: str, objects: Path | None = None, more: Sequence[str] = ()
    ) -> None:
        """Set up the commands.

        Args:
            torch: The directory of the package ``torch``.
            version: PyTorch's version.
            objects: The folder for objects; by default one for each version of PyTorch.
            more: Further flags of the compiler and the linker.
        """
        release = TORCH_VERSIONS.release(version)
        default = OBJECTS if release == TORCH_VERSIONS.SUPPORTED[0] else OBJECTS / release
        self.objects, self.more = objects or default, more
        include = torch / "include"
        self.compiler = os.environ.get("CXX", "g++")
        self.libraries = torch / "lib"
        interfaces = [include, include / "torch" / "csrc" / "api" / "include", include / "kineto"]
        system = [*interfaces, sysconfig.get_path("include")]
        self.flags = [
            *FLAGS,
            *more,
            # part of the command, so that another version rebuilds everything
            f'-DFTM_TORCH_VERSION="{version}"',
            # for "memory/memory_pool.h"; with -I, <memory> would find csrc/memory
            *("-iquote", str(ROOT / "csrc")),
            f"-I{ROOT / 'backend' / 'ftm_backend' / 'machine' / 'include'}",
            *(word for path in system for word in ("-isystem", str(path))),
        ]

    def build(self, output: Path) -> None:
        """Build what is stale, and install the library as ``output``; raises BuildError."""
        folders = sorted({source.parent for source in (ROOT / "csrc").rglob("*.cpp")})
        if not folders:
            raise BuildError(f"no C++ sources in {ROOT / 'csrc'}")
        self.objects.mkdir(parents=True, exist_ok=True)
        targets = [self.objects / f"{folder.name}.o" for folder in folders]
        by_size = sorted(zip(folders, targets, strict=True), key=_source_bytes, reverse=True)
        header = self._precompile()
        flags = [*self.flags, "-Winvalid-pch", "-include", str(header.with_suffix(""))]
        units = []  # the largest first, so that none is left to compile alone at the end
        for folder, target in by_size:
            command = [self.compiler, *flags, "-c", str(_unity_source(folder, self.objects))]
            if not _is_fresh(target, command, [header]):
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
            *map(str, targets),
            f"-L{self.libraries}",
        ]
        link += [f"-l{name}" for name in names]
        linked = self.objects / "_C.so"
        if not _is_fresh(linked, link, targets):
            _run(link, linked, f"[{total}/{total}] {RECORDER}")
        _install(linked, output)

    def _precompile(self) -> Path:
        """Precompile `PRECOMPILED` if it is stale.

        Returns:
            The precompiled header. ``-include`` of its name without the suffix reads it, or the
            header itself if the compiler does not accept it.
        """
        source = self.objects / "torch_headers.h"
        _write_if_changed(source, "".join(f"#include <{name}>\n" for name in PRECOMPILED))
        command = [self.compiler, *self.flags, "-x", "c++-header", str(source)]
        target = source.with_name(f"{source.name}.gch")
        if not _is_fresh(target, command, []):
            _run(command, target, "headers of PyTorch")
        return target

    def commands(self) -> list[tuple[Path, list[str]]]:
        """Return the command that compiles each source by itself, for editors and clang-tidy.

        They do not use the precompiled header, so clang-tidy reports an include that is missing.
        """
        return [
            (source, [self.compiler, *self.flags, "-c", str(source)])
            for source in sorted((ROOT / "csrc").rglob("*.cpp"))
        ]


def write_compile_commands(commands: list[tuple[Path, list[str]]]) -> None:
    """Write ``compile_commands.json``, if it would change."""
    entries = [
        {"directory": str(ROOT), "file": str(source), "arguments": command}
        for source, command in commands
    ]
    _write_if_changed(ROOT / "compile_commands.json", json.dumps(entries, indent=1) + "\n")


def _write_if_changed(path: Path, text: str) -> None:
    """Write a file, unless that would only make it newer."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _source_bytes(unit: tuple[Path, Path]) -> int:
    """Return the size of the sources of a unit: a folder, and its object."""
    return sum(source.stat().st_size for source in unit[0].glob("*.cpp"))


def _unity_source(folder: Path, objects: Path) -> Path:
    """Write a source that includes all sources of a folder (unity build).

    This way templates are instantiated, and headers that `PRECOMPILED` lacks are read, once per
    folder.
    """
    text = "".join(
        f'#include "{folder.name}/{source.name}"\n' for source in sorted(folder.glob("*.cpp"))
    )
    unity = objects / f"{folder.name}.cpp"
    _write_if_changed(unity, text)
    return unity


def _is_fresh(target: Path, command: list[str], inputs: list[Path]) -> bool:
    """Return whether this command made ``target``, after its inputs and headers last changed."""
    record, headers = target.with_name(target.name + ".cmd"), target.with_name(target.name + ".d")
    if not target.exists() or not record.exists() or record.read_text() != "\n".join(command):
        return False
    included = headers.read_text().replace("\\\n", " ").split()[1:] if headers.exists() else []
    built_at = target.stat().st_mtime_ns
    dependencies = [*inputs, *map(Path, included)]
    return all(path.exists() and path.stat().st_mtime_ns <= built_at for path in dependencies)


def _run(command: list[str], target: Path, label: str) -> None:
    """Run ``command -o target``; the target is replaced only if the command succeeds."""
    partial = target.with_name(target.name + ".partial")
    depends = (
        ["-MMD", "-MF", str(target) + ".d", "-MT", target.name] if "-shared" not in command else []
    )
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *depends, "-o", str(partial)],
            capture_output=True,
            text=True,
            # Without these, ccache does not reuse a unit that has a precompiled header.
            env={"CCACHE_SLOPPINESS": "pch_defines,time_macros", **os.environ},
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
    """Return how many compilers to run in parallel: one per CPU, and per 2 GB of memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**31
    limit = int(os.environ.get("MAX_JOBS") or min(os.cpu_count() or 1, memory))
    return max(1, limit)


def _install(built: Path, output: Path) -> None:
    """Copy a library; a process that has the old one mapped keeps it.

    A library for another version of PyTorch may be newer than `built`, so only equal times count.
    """
    if output.exists() and output.stat().st_mtime_ns == built.stat().st_mtime_ns:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(output.name + ".partial")
    shutil.copy2(built, partial)
    os.replace(partial, output)


MACHINE_BUILD = ROOT / "backend" / "ftm_backend" / "machine" / "build.py"


def build_machine(output: Path) -> list[tuple[Path, list[str]]]:
    """Build the emulator's library if it is stale; returns each source's compile command."""
    module = _load(MACHINE_BUILD)
    begin = time.monotonic()
    print("libftm_machine.so ...", file=sys.stderr, flush=True)
    built = module.build(jobs=_jobs())
    print(f"libftm_machine.so  {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    if output.resolve() != built.resolve():
        _install(built, output)
    return module.commands()


def write_build_record(path: Path, torch_version: str) -> None:
    """Write what the recorder was built for, if it would change."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    record = {"torch": TORCH_VERSIONS.release(torch_version), "python": python}
    _write_if_changed(path, json.dumps(record) + "\n")


def package_version() -> str:
    """Return the version of the distribution."""
    version = _assigned(ROOT / "ftm_lazy" / "__init__.py", "__version__")
    if not os.environ.get("TORCH_IN_VERSION"):
        return version
    try:
        return TORCH_VERSIONS.wheel_version(version, find_torch()[1])
    except BuildError as error:
        sys.exit(f"\nerror: {error}")


def requirements() -> list[str]:
    """Return the packages that an installation needs.

    A wheel requires the version of PyTorch that it was built for; a source distribution, which is
    made without PyTorch, any of the supported ones.
    """
    supported = TORCH_VERSIONS.SUPPORTED
    try:
        torch = f"torch=={TORCH_VERSIONS.release(find_torch()[1])}"
    except BuildError:
        torch = f"torch>={supported[0]},<={supported[-1]}"
    return [torch, *PROJECT["optional-dependencies"]["mlir"], "numpy>=2.0,<3"]


def long_description() -> str:
    """Return README.md for PyPI: links to files of the sources lead to the documentation's site."""
    site = PROJECT["urls"]["Documentation"]

    def absolute(link: re.Match[str]) -> str:
        page = re.fullmatch(r"docs/(.+)\.md(#.*)?", link[1])
        return f"]({site}{page[1]}.html{page[2] or ''})" if page else f"]({site})"

    return re.sub(r"\]\((?!https?://|#)([^)\s]+)\)", absolute, (ROOT / "README.md").read_text())


def mirror(package: Path, target: Path, libraries: dict[str, Path]) -> None:
    """Copy a package as links.

    Args:
        package: The package's folder.
        target: The folder of the copy, which is replaced.
        libraries: By path in the copy, the library to link there instead of the package's.
    """
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
    """The command ``build_ext``, which builds both libraries by the code above."""

    def build_extensions(self) -> None:
        """Build what is stale; a BuildError is shown without a traceback."""
        try:
            torch, version = find_torch()
            recorder = Recorder(torch, version)
            machine = build_machine(self._output(MACHINE))
            recorder.build(self._output(RECORDER))
            write_build_record(self._record(), version)
            write_compile_commands([*recorder.commands(), *machine])
        except RuntimeError as error:
            sys.exit(f"\nerror: {error}")

    def copy_extensions_to_source(self) -> None:
        """Copy the libraries and the build record into the sources, for a build in place."""
        self.force = True  # also over a newer library, which is for another version of PyTorch
        super().copy_extensions_to_source()
        shutil.copy2(self._record(), ROOT / "ftm_lazy")

    def _record(self) -> Path:
        return Path(self.build_lib) / "ftm_lazy" / TORCH_VERSIONS.BUILD_RECORD.name

    def _output(self, name: str) -> Path:
        return Path(self.get_ext_fullpath(name)).resolve()

    def get_ext_filename(self, fullname: str) -> str:
        """Return an extension's file name; the machine's has no Python version."""
        if fullname.endswith(MACHINE.rpartition(".")[2]):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)


class BuildSanitized(Command):
    """The command ``build_sanitized``, see above."""

    user_options: ClassVar[list[tuple[str, str, str]]] = []

    def initialize_options(self) -> None:
        """Do nothing; the command has no options."""

    finalize_options = initialize_options

    def run(self) -> None:
        """Build what is stale; a BuildError is shown without a traceback."""
        recorder = SANITIZED / "native" / ("_C" + sysconfig.get_config_var("EXT_SUFFIX"))
        try:
            machine = _load(MACHINE_BUILD).build_sanitized("address")
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
    include_package_data=False,  # else MANIFEST.in would add the sources of the machine
    package_data={
        "ftm_backend.conformance": ["models/*.trace"],
        "ftm_backend.machine": ["include/*.h", "*.h"],
        "ftm_backend": ["py.typed"],
        "ftm_lazy": ["py.typed", "_C.pyi", "build_record.json"],
        "ftm_lazy.torch_xla": ["names.tsv", "importable/**/*"],
    },
    version=package_version(),
    install_requires=requirements(),
    long_description=long_description(),
    long_description_content_type="text/markdown",
    ext_modules=[Extension(RECORDER, []), Extension(MACHINE, [])],
    cmdclass={
        "build_ext": BuildNative,
        "build_sanitized": BuildSanitized,
    },
)
