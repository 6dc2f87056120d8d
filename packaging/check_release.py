"""Check that a release is complete; each line of the list is one function.

    python packaging/check_release.py            # the sources, and their tag
    python packaging/check_release.py --tag      # makes the tag, if the sources are complete
    python packaging/check_release.py --dist     # also dist/: wheels, source distribution

``--dist`` needs twine and auditwheel. If all checks hold, the last line is the next command of the
release, whose steps are in CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [
    words.rpartition(" ")[2]
    for words in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", words)
]
SUMMARY = re.compile(r"[^/]*\.dist-info/METADATA|[^/]*/PKG-INFO")
"""The file with a distribution's metadata, in a wheel or a source distribution."""
IN_WHEEL = (
    "ftm_autoload.py",
    "ftm_lazy/py.typed",
    "ftm_backend/py.typed",
    "ftm_backend/machine/libftm_machine.so",
    "ftm_lazy/build_record.json",
)
IN_SDIST = (
    "Makefile",
    "setup.py",
    "csrc/torch/module.cpp",
    "backend/ftm_backend/py.typed",
    "tests/conftest.py",
    "docs/conf.py",
    "packaging/check_wheel.py",
)
BUILT = (".so", ".o", "build_record.json")
"""Endings of files that a build writes."""


def assigned(file: str, name: str) -> object:
    """Return the literal that a module assigns to a name."""
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"{file} does not set {name}")


VERSION = str(assigned("ftm_lazy/__init__.py", "__version__"))
TAG = f"v{VERSION}"
VERSIONS = runpy.run_path(str(ROOT / "ftm_lazy/torch_version/supported.py"))
TORCH: tuple[str, ...] = VERSIONS["SUPPORTED"]


def changelog_has_the_version_and_a_date() -> str:
    """CHANGELOG.md's first section is this version, and is not "unreleased"."""
    first = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    title = first[1] if first else "nothing"
    return "" if re.fullmatch(rf"{re.escape(VERSION)}, \d{{4}}-\d\d-\d\d", title) else title


def the_version_is_new() -> str:
    """The version is higher than that of each other tag."""
    others = [tag for tag in git("tag", "--list", "v*").split() if tag != TAG]
    return ", ".join(tag for tag in others if numbers(tag[1:]) >= numbers(VERSION))


def documents_announce_the_release() -> str:
    """README.md and docs/start.md do not say that the version is not on PyPI."""
    files = ("README.md", "docs/start.md")
    return ", ".join(name for name in files if "not on PyPI" in (ROOT / name).read_text())


def nothing_is_uncommitted() -> str:
    """The working tree is what was committed."""
    return git("status", "--porcelain").strip()


def the_tag_is_here() -> str:
    """The commit has the tag vVERSION."""
    if TAG in git("tag", "--points-at", "HEAD").split():
        return ""
    if git("tag", "--list", TAG):
        return f"{TAG} is the tag of another commit"
    return "python packaging/check_release.py --tag"


def documents_name_wheels_of_this_version() -> str:
    """README.md, docs/start.md and docs/support.md name wheels of this version and no other."""
    wheels = {VERSIONS["wheel_version"](VERSION, torch) for torch in TORCH}
    return ", ".join(
        f"{name} has {found}"
        for name in ("README.md", "docs/start.md", "docs/support.md")
        for found in re.findall(r"\d+\.\d+\.\d+\.post\d+", (ROOT / name).read_text())
        if found not in wheels
    )


def documents_name_the_supported_versions() -> str:
    """README.md, docs/support.md and wheels.yml name each PyTorch, and the last two each Python."""
    support, jobs = "docs/support.md", ".github/workflows/wheels.yml"
    wanted = {"README.md": TORCH, support: (*TORCH, *PYTHONS), jobs: (*TORCH, *PYTHONS)}
    return ", ".join(
        f"{name} lacks {version}"
        for name, versions in wanted.items()
        for version in versions
        if version not in (ROOT / name).read_text()
    )


def the_lock_agrees() -> str:
    """requirements.txt has a supported version of PyTorch."""
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return "" if pinned and pinned[1] in TORCH else f"torch=={pinned and pinned[1]}"


def the_site_builds_with_a_supported_version() -> str:
    """.readthedocs.yaml installs a supported version of PyTorch."""
    found = re.search(r"torch==([\d.]+)", (ROOT / ".readthedocs.yaml").read_text())
    return "" if found and found[1] in TORCH else str(found and found[1])


def commands_are_installed() -> str:
    """Each command of pyproject.toml is a function that exists."""
    missing = []
    for name, target in PROJECT["scripts"].items():
        module, _, function = target.partition(":")
        paths = [ROOT / folder / (module.replace(".", "/") + ".py") for folder in ("", "backend")]
        if not any(path.exists() and f"def {function}(" in path.read_text() for path in paths):
            missing.append(name)
    return ", ".join(missing)


def dist_is_complete() -> str:
    """dist/ has a wheel for each pair of Python and PyTorch, the source distribution, no more."""
    wanted = [
        rf"torch_ftm-{VERSIONS['wheel_version'](VERSION, torch)}-cp{tag}-cp{tag}-manylinux_\w+\.whl"
        for torch in TORCH
        for tag in (python.replace(".", "") for python in PYTHONS)
    ]
    wanted.append(rf"torch_ftm-{re.escape(VERSION)}\.tar\.gz")
    names = [path.name for path in DIST.glob("*")]
    missing = [pattern for pattern in wanted if not any(re.fullmatch(pattern, n) for n in names)]
    others = [name for name in names if not any(re.fullmatch(p, name) for p in wanted)]
    return ", ".join([f"lacks {name}" for name in missing] + [f"has {name}" for name in others])


def wheels_are_what_their_names_say() -> str:
    """Each wheel requires, and has a record of, the PyTorch of its version; no file is missing."""
    return "; ".join(filter(None, map(wheel_fault, sorted(DIST.glob("*.whl")))))


def wheel_fault(path: Path) -> str:
    """Return what is wrong with a wheel; "" if nothing is."""
    _, version, tag, *_ = path.name.split("-")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        summary = metadata(archive.read(next(filter(SUMMARY.fullmatch, names))).decode())
        wanted = (*IN_WHEEL, f"ftm_lazy/_C.cpython-{tag[2:]}-x86_64-linux-gnu.so")
        if missing := [name for name in wanted if name not in names]:
            return f"{path.name} lacks {', '.join(missing)}"
        record = json.loads(archive.read("ftm_lazy/build_record.json"))
    torch, python = record["torch"], record["python"]
    wrong = [
        reason
        for reason, holds in (
            (f"has version {summary['Version']}", summary["Version"] == version),
            (f"is built for {torch}", version == VERSIONS["wheel_version"](VERSION, torch)),
            (f"is built for Python {python}", tag == f"cp{python.replace('.', '')}"),
            (f"does not require {torch}", f"torch=={torch}" in requirements(summary)),
        )
        if not holds
    ]
    return f"{path.name} {', '.join(wrong)}" if wrong else ""


def the_source_distribution_is_whole() -> str:
    """The source distribution has sources, tests, documents, this version, and no built file."""
    found = []
    for path in DIST.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            names = archive.getnames()
            file = archive.extractfile(next(filter(SUMMARY.fullmatch, names)))
            version = metadata(file.read().decode())["Version"] if file else None
        inside = {name.partition("/")[2] for name in names}
        found += [f"lacks {name}" for name in IN_SDIST if name not in inside]
        found += [f"has {name}" for name in sorted(inside) if name.endswith(BUILT)]
        found += [f"has version {version}"] if version != VERSION else []
    return ", ".join(found)


def twine_accepts_dist() -> str:
    """PyPI accepts the metadata and the long description (`twine check --strict`)."""
    files = sorted(map(str, DIST.glob("*")))
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def wheels_are_manylinux() -> str:
    """No symbol of a wheel is newer than its tag (`auditwheel show`)."""
    wrong = []
    for path in sorted(DIST.glob("*.whl")):
        command = [sys.executable, "-m", "auditwheel", "show", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        tags = re.findall(r"manylinux_\d+_\d+", done.stdout)
        newest = max((tuple(map(int, tag.split("_")[1:])) for tag in tags), default=None)
        named = re.search(r"manylinux_(\d+)_(\d+)", path.name)
        if newest is None or named is None or newest > (int(named[1]), int(named[2])):
            wrong.append(f"{path.name}: {newest}{done.stderr}")
    return ", ".join(wrong)


SOURCES: tuple[Callable[[], str], ...] = (
    changelog_has_the_version_and_a_date,
    the_version_is_new,
    documents_announce_the_release,
    documents_name_the_supported_versions,
    documents_name_wheels_of_this_version,
    the_lock_agrees,
    the_site_builds_with_a_supported_version,
    commands_are_installed,
    nothing_is_uncommitted,
    the_tag_is_here,
)
DISTRIBUTIONS: tuple[Callable[[], str], ...] = (
    dist_is_complete,
    wheels_are_what_their_names_say,
    wheels_are_manylinux,
    the_source_distribution_is_whole,
    twine_accepts_dist,
)


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    return tuple(map(int, re.findall(r"\d+", version)))


def metadata(text: str) -> Message:
    """Return the fields of a distribution's metadata."""
    return Parser().parsestr(text)


def requirements(summary: Message) -> list[str]:
    """Return what a distribution requires."""
    return summary.get_all("Requires-Dist", [])


def failures(checks: Iterable[Callable[[], str]]) -> int:
    """Print each check with what it found; return how many do not hold."""
    failed = 0
    for check in checks:
        found = check()
        failed += bool(found)
        print(
            f"{'FAILED' if found else 'ok':6}  {check.__doc__}"
            + (f"\n        {found}" if found else "")
        )
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; return 0 if all hold."""
    parser = argparse.ArgumentParser(description="Check that a release is complete.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--tag", action="store_true", help="make the tag if the sources are complete")
    what.add_argument("--dist", action="store_true", help="also check the files of dist/")
    given = parser.parse_args(arguments)
    if given.tag:
        if failures(check for check in SOURCES if check is not the_tag_is_here):
            return 1
        if not git("tag", "--list", TAG):
            git("tag", "--annotate", TAG, "--message", f"ftm {VERSION}")
        checks: tuple[Callable[[], str], ...] = (the_tag_is_here,)
    else:
        checks = (*SOURCES, *DISTRIBUTIONS) if given.dist else SOURCES
    if failures(checks):
        return 1
    print(f"\nnow: {'twine upload dist/*' if given.dist else f'git push origin {TAG}'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
