"""``packaging/check_release.py``: what it says of these sources, and of files that are wrong."""

from __future__ import annotations

import json
import runpy
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DIST = "wheels_are_what_their_names_say"


@pytest.fixture
def checks(tmp_path: Path) -> dict[str, Any]:
    """The functions of the script, which look for distributions in the test's folder."""
    path = ROOT / "packaging" / "check_release.py"
    found = runpy.run_path(str(path))
    found["main"].__globals__["DIST"] = tmp_path
    return found


@pytest.mark.parametrize(
    "name",
    [
        "changelog_has_the_version_and_a_date",
        "documents_name_the_supported_versions",
        "documents_name_wheels_of_this_version",
        "the_lock_agrees",
        "the_site_builds_with_a_supported_version",
        "commands_are_installed",
    ],
)
def test_the_sources_are_consistent(checks: dict[str, Any], name: str) -> None:
    assert checks[name]() == ""


def write_wheel(
    folder: Path, version: str, torch: str, python: str = "3.11", without: str = ""
) -> None:
    tag = f"cp{python.replace('.', '')}"
    with zipfile.ZipFile(
        folder / f"torch_ftm-{version}-{tag}-{tag}-manylinux_2_34_x86_64.whl", "w"
    ) as archive:
        archive.writestr(
            f"torch_ftm-{version}.dist-info/METADATA",
            f"Name: torch-ftm\nVersion: {version}\nRequires-Dist: torch=={torch}\n\ntorch==9\n",
        )
        archive.writestr(
            "ftm_lazy/build_record.json", json.dumps({"torch": torch, "python": "3.11"})
        )
        for name in (
            "ftm_autoload.py",
            "ftm_lazy/py.typed",
            "ftm_backend/py.typed",
            "ftm_backend/machine/libftm_machine.so",
            "ftm_lazy/_C.cpython-311-x86_64-linux-gnu.so",
        ):
            if name != without:
                archive.writestr(name, "")


def test_wheels_are_compared_with_their_names(checks: dict[str, Any], tmp_path: Path) -> None:
    oldest, newest = checks["TORCH"][0], checks["TORCH"][-1]
    version = checks["VERSIONS"]["wheel_version"](checks["VERSION"], oldest)
    write_wheel(tmp_path, version, oldest)
    assert checks[DIST]() == ""
    assert "lacks torch_ftm" in checks["dist_is_complete"]()
    write_wheel(tmp_path, version, oldest, without="ftm_lazy/py.typed")
    assert checks[DIST]().endswith("lacks ftm_lazy/py.typed")
    write_wheel(tmp_path, version, newest)
    assert f"is built for {newest}" in checks[DIST]()
    write_wheel(tmp_path, version, newest, python="3.12")
    assert "lacks ftm_lazy/_C.cpython-312-x86_64-linux-gnu.so" in checks[DIST]()


def test_files_of_other_releases_are_named(checks: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "torch_ftm-0.0.1.tar.gz").touch()
    assert "has torch_ftm-0.0.1.tar.gz" in checks["dist_is_complete"]()


def test_a_source_distribution_without_tests_is_named(
    checks: dict[str, Any], tmp_path: Path
) -> None:
    version = checks["VERSION"]
    (tmp_path / "PKG-INFO").write_text("Name: torch-ftm\nVersion: 0\n")
    with tarfile.open(tmp_path / f"torch_ftm-{version}.tar.gz", "w:gz") as archive:
        for name in ("PKG-INFO", "ftm_lazy/build_record.json"):
            archive.add(tmp_path / "PKG-INFO", f"torch_ftm-{version}/{name}")
    found = checks["the_source_distribution_is_whole"]()
    assert "lacks tests/conftest.py" in found and "has version 0" in found
    assert "has ftm_lazy/build_record.json" in found


@pytest.fixture
def repository(checks: dict[str, Any], tmp_path: Path) -> Path:
    """A repository with one commit, to which the checks of tags and of changes are applied."""
    root = tmp_path / "repository"
    names = ("the_version_is_new", "nothing_is_uncommitted", "the_tag_is_here")
    checks["main"].__globals__.update(ROOT=root, SOURCES=tuple(checks[name] for name in names))
    root.mkdir()
    run_git(root, "init", "--quiet")
    run_git(root, "config", "user.name", "a maintainer")
    run_git(root, "config", "user.email", "a@maintainer")
    run_git(root, "commit", "--quiet", "--allow-empty", "--message", "Release")
    return root


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


def test_the_tag_is_made_if_all_checks_hold(
    checks: dict[str, Any], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "x").touch()
    assert checks["main"](["--tag"]) == 1 and run_git(repository, "tag") == ""
    (repository / "x").unlink()
    assert checks["main"]([]) == 1 and "check_release.py --tag" in capsys.readouterr().out
    assert checks["main"](["--tag"]) == 0
    tag = checks["TAG"]
    assert capsys.readouterr().out.endswith(f"\nnow: git push origin {tag}\n")
    assert run_git(repository, "cat-file", "-t", tag) == "tag\n"
    assert checks["main"](["--tag"]) == checks["main"]([]) == 0


def test_a_tag_is_neither_moved_nor_lowered(
    checks: dict[str, Any], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checks["main"](["--tag"]) == 0
    run_git(repository, "commit", "--quiet", "--allow-empty", "--message", "After the release")
    assert checks["main"](["--tag"]) == 1
    assert f"{checks['TAG']} is the tag of another commit" in capsys.readouterr().out
    run_git(repository, "tag", "--delete", checks["TAG"])
    run_git(repository, "tag", "v999.0.0")
    assert checks["main"](["--tag"]) == 1 and "v999.0.0" in capsys.readouterr().out
    assert run_git(repository, "tag") == "v999.0.0\n"
