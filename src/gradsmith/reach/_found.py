"""What was found in a package, as plain data: it goes from process to process, and holds nothing of the package."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Found", "Package", "Unread"]


@dataclass(frozen=True)
class Found:
    """One custom gradient.

    Args:
        name: Its qualified name in the module: "Clip", "make.<locals>.Clip"; of an operator "library::name".
        module: The dotted name it is imported by; of a file outside of every package its stem.
        file: The absolute path of the source; empty where there is none.
        line: Where the definition begins, from 1; 0 where that is not known.
        kind: "Function", "custom_op", "operator" (registered by `torch.library.Library`), "declared" or "Module".
        reachable: Whether the object stands under its name once its module is imported.
        why: Why it is not reachable, or what it is that makes a check pointless: "made inside of make()", "its module
            does not import: No module named 'triton'".
        exempt: It defines no gradient of its own (a base class, a stub for an exporter): it is counted, not checked.
    """

    name: str
    module: str
    file: str = ""
    line: int = 0
    kind: str = "Function"
    reachable: bool = True
    why: str = ""
    exempt: bool = False

    @property
    def id(self) -> str:
        """A name nothing else in the package has: "package.module:Clip"; an operator is its own name."""
        return self.name if "::" in self.name else f"{self.module}:{self.name}"


@dataclass(frozen=True)
class Unread:
    """A module or file that could not be imported, and why."""

    module: str
    file: str
    why: str


@dataclass(frozen=True)
class Package:
    """All that was found under one target.

    Args:
        target: What was asked for, as it was typed.
        name: What it is called: that of the distribution, the module, the folder or the file.
        version: Of the distribution; empty where there is none.
        root: The folder that paths in a report are relative to.
        search: Folders that must be on the search path for its modules to be imported.
        found: In the order of file and line.
        unread: Modules that did not import; what they define was found by reading them.
        remarks: What the user should know of the cases beside it, one sentence each.
    """

    target: str
    name: str
    version: str = ""
    root: str = ""
    search: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()
    unread: tuple[Unread, ...] = ()
    remarks: tuple[str, ...] = ()
