"""Files as a reader finds them: relative to the folder the command ran in, or to the root of an installed package."""

from __future__ import annotations

import os
from pathlib import Path

from gradsmith.check.report._plain import clean
from gradsmith.reach._found import Found, Package

__all__ = ["Places"]


_INSTALLED = {"site-packages", "dist-packages"}  # of an environment that lies in the current folder


class Places:
    """Writes the files of one package relative to `base`.

    That is the current folder where the package lies in it, so that a path can be opened as it stands and a
    code-scanning view, which knows the repository, finds it; of an installed package it is the folder it is in.
    """

    def __init__(self, package: Package) -> None:
        here = Path.cwd()
        root = Path(package.root) if package.root else here
        ours = root.is_relative_to(here) and _INSTALLED.isdisjoint(root.relative_to(here).parts)
        self.base = here if ours else root
        self._prefix = f"{self.base}{os.sep}" if self.base.parent != self.base else ""

    def file(self, file: str) -> str:
        """A file, with slashes."""
        return self.short(file).replace(os.sep, "/")

    def short(self, text: str) -> str:
        """Text in which files below the base are written relative to it."""
        return text.replace(self._prefix, "") if self._prefix else text

    def of(self, found: Found) -> str:
        """File and line of a function; empty where there is no source."""
        if not found.file:
            return ""
        return clean(self.file(found.file)) + (f":{found.line}" if found.line else "")

    def split(self, where: str) -> tuple[str, int]:
        """The file and the line of "file:line"; the line is 0 where there is none."""
        file, colon, line = where.rpartition(":")
        if colon and line.isdecimal():
            return self.file(file), int(line)
        return self.file(where), 0
