"""Check that the sources are ready for a release; each line of the list is one function.

    python packaging/check_release.py            # the sources
    python packaging/check_release.py --dist     # also dist/: wheels, source distribution

By hand remain: `make nightly`, the tag (``git tag vVERSION``), and ``twine upload dist/*``.
"""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("311", "312", "313")


def assigned(file: str, name: str) -> object:
    """Return the literal that a module assigns to a name."""
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"{file} does not set {name}")


VERSION = str(assigned("ftm_lazy/__init__.py", "__version__"))
VERSIONS = runpy.run_path(str(ROOT / "ftm_lazy/torch_version/supported.py"))
TORCH: tuple[str, ...] = VERSIONS["SUPPORTED"]


def changelog_has_the_version_and_a_date() -> str:
    """CHANGELOG.md's first section is this version, and is not "unreleased"."""
    first = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    title = first[1] if first else "nothing"
    return "" if re.fullmatch(rf"{re.escape(VERSION)}, \d{{4}}-\d\d-\d\d", title) else title


def nothing_is_uncommitted() -> str:
    """The working tree is what was committed."""
    return git("status", "--porcelain").strip()


def the_tag_is_here() -> str:
    """The commit has the tag vVERSION."""
    tags = git("tag", "--points-at", "HEAD").split()
    return "" if f"v{VERSION}" in tags else f"git tag v{VERSION}"


def documents_name_the_supported_versions() -> str:
    """docs/support.md and README.md name each version of PyTorch, and the jobs build for each."""
    files = ("README.md", "docs/support.md", ".github/workflows/wheels.yml")
    texts = {name: (ROOT / name).read_text() for name in files}
    return ", ".join(
        f"{name} lacks {version}"
        for name, text in texts.items()
        for version in TORCH
        if version not in text
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    missing = []
    for name, target in project["scripts"].items():
        module = target.partition(":")[0].replace(".", "/") + ".py"
        if not any((ROOT / folder / module).exists() for folder in ("", "backend")):
            missing.append(name)
    return ", ".join(missing)


def dist_is_complete() -> str:
    """dist/ has a wheel for each pair of Python and PyTorch, and the source distribution."""
    names = [path.name for path in (ROOT / "dist").glob("*")]
    versions = [VERSIONS["wheel_version"](VERSION, torch) for torch in TORCH]
    wanted = [
        rf"torch_ftm-{version}-cp{python}-cp{python}-manylinux_\w+\.whl"
        for version in versions
        for python in PYTHONS
    ]
    wanted.append(rf"torch_ftm-{VERSION}\.tar\.gz")
    return ", ".join(p for p in wanted if not any(re.fullmatch(p, name) for name in names))


SOURCES: tuple[Callable[[], str], ...] = (
    changelog_has_the_version_and_a_date,
    nothing_is_uncommitted,
    the_tag_is_here,
    documents_name_the_supported_versions,
    the_lock_agrees,
    the_site_builds_with_a_supported_version,
    commands_are_installed,
)


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def main() -> int:
    """Print each check with what it found; return 0 if all hold."""
    parser = argparse.ArgumentParser(description="Check that a release is complete.")
    parser.add_argument("--dist", action="store_true", help="also check the files of dist/")
    checks = (*SOURCES, dist_is_complete) if parser.parse_args().dist else SOURCES
    failed = 0
    for check in checks:
        found = check()
        failed += bool(found)
        print(
            f"{'FAILED' if found else 'ok':6}  {check.__doc__}"
            + (f"\n        {found}" if found else "")
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
