"""Adds two files that setuptools has no word for: the metadata of ``torch_xla``, and a .pth file
beside the package.

A wheel has the metadata of one distribution, its own; that of ``torch_xla`` lies in a folder of its
own below the package, which the .pth file puts on the path, where `importlib.metadata` looks.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

METADATA = """\
Metadata-Version: 2.1
Name: torch_xla
Version: 2.9.0
Summary: The names of torch_xla 2.9, served by ftm
"""

METADATA_FOLDER = "torch_xla/metadata"

START = f"import os; os.environ.setdefault('FTM_DEVICE_NAME', 'xla')\n{METADATA_FOLDER}\n"
"""Read by every Python of the environment, before anything can import torch."""


class Build(build_py):
    """setuptools' command, and the two files."""

    def run(self) -> None:
        """Builds."""
        super().run()
        for file, content in self._files().items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """What an installation must have."""
        return [*super().get_outputs(include_bytecode), *map(str, self._files())]

    def _files(self) -> dict[Path, str]:
        root = Path(self.build_lib)
        metadata = root / METADATA_FOLDER / "torch_xla-2.9.0.dist-info" / "METADATA"
        return {metadata: METADATA, root / "ftm_torch_xla.pth": START}


setup(packages=["torch_xla"], cmdclass={"build_py": Build})
