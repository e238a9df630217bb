"""Small packages in a folder, found in this process; what that imports is forgotten afterwards."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradsmith.reach._found import Found, Package

__all__ = ["by_id", "folder", "function", "write"]

_FUNCTION = """
class {name}({base}):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
"""


def function(name: str, base: str = "Function") -> str:
    return _FUNCTION.format(name=name, base=base)


def write(folder: Path, files: dict[str, str]) -> Path:
    """Files by their path in the folder."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return folder


def by_id(package: Package) -> dict[str, Found]:
    return {found.id: found for found in package.found}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, empty; modules and the search path are put back."""
    monkeypatch.chdir(tmp_path)
    modules, path = set(sys.modules), list(sys.path)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] not in modules | sys.stdlib_module_names:
            del sys.modules[name]
    sys.path[:] = path
