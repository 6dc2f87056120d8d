"""The command ``ftm``: its subcommands have one style of help, one of errors, and shared options."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import ftm_lazy
from ftm_backend import cli_common
from ftm_backend.tools import ftm
from ftm_lazy import settings
from ftm_lazy.compile import cache_files, trusted_files
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        status = ftm.main([str(word) for word in words])
    except SystemExit as ended:
        status = ended.code  # type: ignore[assignment]
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.mark.parametrize("name", ftm.COMMANDS)
def test_help_has_one_style(name: str, capsys: Capture) -> None:
    status, out, _ = run(capsys, name, "--help")
    assert status == 0 and out.startswith(f"usage: ftm {name} [-h] [--version] [-q | -v]")
    description = importlib.import_module(ftm.COMMANDS[name][0]).parser().description
    assert re.fullmatch(r"[A-Z][a-z]+,? .*\.", description), "a sentence that begins with a verb"


@pytest.mark.parametrize("option", ["--no-such-option", "--vers"])
@pytest.mark.parametrize("name", ftm.COMMANDS)
def test_errors_have_one_style(name: str, option: str, capsys: Capture) -> None:
    status, out, err = run(capsys, name, option)
    assert status == 2 and out == "" and err.count("\n") == 1
    assert err.startswith(f"ftm {name}: ") and f"(`ftm {name} --help` lists the options)" in err


def test_a_name_with_nul_is_refused(capsys: Capture) -> None:
    status, _, err = run(capsys, "cache", "import", "a\0b")
    assert status == 2 and "a name cannot contain a NUL" in err and "failed inside" not in err


def test_the_former_names_are_the_subcommands() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    former = {name: target for name, target in scripts.items() if name.startswith("ftm-")}
    assert len(former) == 7
    for name, target in former.items():
        assert target == f"{ftm.COMMANDS[name.removeprefix('ftm-')][0]}:main"


def test_unknown_commands_and_versions(capsys: Capture) -> None:
    assert "did you mean 'compile'?" in run(capsys, "compil")[2]
    assert run(capsys)[0] == 2 and run(capsys, "help")[0] == 0
    assert run(capsys, "--version")[1] == run(capsys, "run", "--version")[1]
    assert run(capsys, "help", "run")[1].startswith("usage: ftm run")


def test_a_fault_shows_its_traceback_only_on_request(capsys: Capture) -> None:
    @cli_common.command("ftm broken")
    def broken(arguments: Sequence[str] | None = None) -> int:
        cli_common.Parser("ftm broken", "Break.").parse_args(arguments)
        raise LookupError("no luck")

    assert broken([]) == 2
    assert (
        capsys.readouterr().err
        == "ftm broken: `ftm broken ` failed inside: no luck (-v shows where)\n"
    )
    assert broken(["-v"]) == 2 and "Traceback" in capsys.readouterr().err


def test_info_reports_an_installation_that_does_not_load(tmp_path: Path, capsys: Capture) -> None:
    found = json.loads(run(capsys, "info", "--json")[1])
    assert found["device"].startswith("available") and "cores" in found["machine"]
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from ftm_backend.tools.ftm import main; sys.exit(main(['info']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.search(
        r"^device +not available: ", done.stdout, re.MULTILINE
    )


def test_collect_env_mentions_ftm() -> None:
    from torch.utils import collect_env

    _, packages = collect_env.get_pip_packages(collect_env.run)
    assert f"torch-ftm=={ftm_lazy.__version__}" in packages


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: Capture) -> None:
    status, out, _ = run(capsys, "completion", shell)
    assert status == 0 and "conformance" in out and "instructions" in out


@pytest.mark.parametrize(
    ("typed", "completed"), [("run --ma", "--machine"), ("cache ver", "verify"), ("run model", "")]
)
def test_bash_completes_a_word(typed: str, completed: str, capsys: Capture) -> None:
    _, out, _ = run(capsys, "completion", "bash")
    script = f'{out}\nCOMP_WORDS=(ftm {typed}); COMP_CWORD=2; _ftm; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout == f"{completed}\n"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    directory = tmp_path / "cache"
    store = DiskCache(directory, 1 << 20)
    for number in range(3):
        store.put(CacheKey(f"trace {number}", "compiler", "host", 2), b"program" * 100)
    return directory


def test_cache_lists_and_verifies(
    cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = run(capsys, "cache", "--dir", cache)
    assert status == 0 and out.count("host, 2 cores") == 3
    chosen = settings.read({"FTM_CACHE_DIR": str(cache)})
    monkeypatch.setattr(settings, "current", lambda: chosen)
    assert f"{cache}, 3 files," in run(capsys, "info")[1]
    victim = next(cache.glob("*.program"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"x")
    status, out, err = run(capsys, "cache", "verify", "--dir", cache)
    assert (status, out.count("checksum"), err) == (1, 1, "3 files, 1 damaged\n")
    assert run(capsys, "cache", "verify", "--remove", "--dir", cache, "-q")[::2] == (0, "")
    assert not victim.exists()


def test_cache_prunes_the_least_recently_used(cache: Path, capsys: Capture) -> None:
    newest = next(cache_files.entries(cache))
    size = newest.size
    assert run(capsys, "cache", "prune", "--size", size, "--dir", cache)[0] == 0
    assert [entry.path for entry in cache_files.entries(cache)] == [newest.path]
    assert run(capsys, "cache", "prune", "--dir", cache)[0] == 2


@pytest.mark.parametrize("action", ["list", "verify", "export", "prune"])
def test_cache_files_that_another_process_removes_are_left_out(
    action: str, cache: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = cache_files.files(cache)
    listed[0].unlink()  # before it is looked at; the next one before it is read
    monkeypatch.setattr(cache_files, "files", lambda directory: listed)
    read = trusted_files.read

    def read_after_removal(path: Path, limit: int) -> bytes:
        listed[1].unlink(missing_ok=True)
        return read(path, limit)

    monkeypatch.setattr(trusted_files, "read", read_after_removal)
    words: dict[str, list[object]] = {
        "export": [tmp_path / "programs.tar"],
        "prune": ["--size", "1G"],
    }
    assert run(capsys, "cache", action, *words.get(action, []), "--dir", cache)[0] == 0
    assert listed[2].exists()


def test_cache_travels(cache: Path, tmp_path: Path, capsys: Capture) -> None:
    archive, other = tmp_path / "programs.tar", tmp_path / "other"
    assert run(capsys, "cache", "export", archive, "--dir", cache)[0] == 0
    assert "3 entries added" in run(capsys, "cache", "import", archive, "--dir", other)[2]
    key = CacheKey("trace 1", "compiler", "host", 2)
    assert DiskCache(other, 1 << 20).get(key) == b"program" * 100
    archive.write_bytes(b"no archive")
    assert (
        "no archive of `ftm cache export`"
        in run(capsys, "cache", "import", archive, "--dir", other)[2]
    )


def test_an_archive_without_end_is_refused(cache: Path, capsys: Capture) -> None:
    status, _, err = run(capsys, "cache", "import", "/dev/zero", "--dir", cache)
    assert status == 2 and "/dev/zero is not a regular file" in err


def test_an_archive_with_other_members_is_refused(
    cache: Path, tmp_path: Path, capsys: Capture
) -> None:
    import io
    import tarfile

    archive, other = tmp_path / "programs.tar", tmp_path / "other"
    good = next(cache.glob("*.program")).read_bytes()
    with tarfile.open(archive, "w") as tar:
        for name in ("../x.program", "0" * 40 + ".program"):
            member = tarfile.TarInfo(name)
            member.size = len(good)
            tar.addfile(member, io.BytesIO(good))
    status, _, err = run(capsys, "cache", "import", archive, "--dir", other)
    assert status == 2 and "2 members are no whole entries" in err
    assert list(tmp_path.rglob("x.program")) == [] and list(other.glob("*.program")) == []
