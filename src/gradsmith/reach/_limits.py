"""How much memory the checked code may take."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["memory_limit", "wants_memory"]

_WORDS = ("can't allocate memory", "cannot allocate memory", "MemoryError", "not enough memory")


@contextlib.contextmanager
def memory_limit(mebibytes: int) -> Iterator[None]:
    """Let the body take so much more data than the process has now, where the system can bound it: Linux."""
    if not mebibytes or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data_now() + (mebibytes << 20)
    if before[1] != resource.RLIM_INFINITY:
        most = min(most, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_now() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


def wants_memory(why: str) -> bool:
    """Whether it was memory that an error speaks of."""
    return any(words in why for words in _WORDS)
