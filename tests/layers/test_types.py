"""Every module of ftm_lazy and ftm_backend is held to mypy's `strict`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "torch", "torch_mlir", "accelerate", "sklearn", "transformers", "torch_xla", "rich",
    "functorch", "tensorboardX",
}  # fmt: skip


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]


def test_strict_for_all_packages() -> None:
    mypy = settings()
    assert mypy["strict"] is True and set(mypy["packages"]) == {"ftm_backend", "ftm_lazy"}
    assert not {"ignore_errors", "exclude", "disable_error_code"} & mypy.keys()


def test_only_other_projects_are_excepted() -> None:
    modules = [module for entry in settings()["overrides"] for module in entry["module"]]
    assert {module.partition(".")[0] for module in modules} <= OUTSIDE
    ignored = [
        str(path.relative_to(ROOT))
        for package in ("ftm_lazy", "backend/ftm_backend")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "# mypy:" in path.read_text()
    ]
    assert not ignored
