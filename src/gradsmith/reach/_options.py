"""What the user asked of the check of a package, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """How each function is checked.

    Args:
        fast: Leave out torch.compile and most neighbours.
        timeout: Seconds one function may take, the search for inputs included.
        tries: Calls the search makes before it gives up.
        memory: MiB one function may take beyond what its package takes; 0 is no limit.
        seed: Of every random number.
        select: Rule codes, or their beginnings, that are reported; all if empty.
        ignore: Those that are not.
        waive: For the id of a function, what its author gives up.
        cases: Files of cases beside those found where they belong.
        calls: A file of recorded calls; empty for the one in the current folder, if there is one.
    """

    fast: bool = False
    timeout: float = 60.0
    tries: int = 50
    memory: int = 4096
    seed: int = 0
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    waive: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cases: tuple[str, ...] = ()
    calls: str = ""
