"""Build of the package ``ftm-torch-xla`` with two files that setuptools cannot describe.

- Metadata of a distribution ``torch_xla``, for `importlib.metadata`. A wheel can only have its own
  metadata, so this lies in a folder of the package.
- A .pth file, which adds this folder to `sys.path` and names the device xla.
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
"""Content of the .pth file, which every Python of the environment reads at startup."""


class Build(build_py):
    """setuptools' command ``build_py`` that also writes the two files."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        for file, content in self._files().items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return the files of an installation."""
        return [*super().get_outputs(include_bytecode), *map(str, self._files())]

    def _files(self) -> dict[Path, str]:
        root = Path(self.build_lib)
        metadata = root / METADATA_FOLDER / "torch_xla-2.9.0.dist-info" / "METADATA"
        return {metadata: METADATA, root / "ftm_torch_xla.pth": START}


setup(packages=["torch_xla"], cmdclass={"build_py": Build})
