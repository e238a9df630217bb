"""One call of a custom gradient: its arguments, and where they came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call"]


@dataclass
class Call:
    """Arguments to call a subject with. The tensors whose gradient is wanted require grad.

    Args:
        args: The positional arguments.
        kwargs: The keyword arguments.
        source: "case", "recorded", "call site" or "search".
        where: File and line of the case or the call site, or the command that was recorded.
        subject: What is called, where it is not the object that was found: that of a factory, which the recorded call
            brings with it.
        gradient_of: The declared intent, where a case says it.
        waive: What a case gives up.
        written: The arguments as Python, where they were made of it.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    source: str = "search"
    where: str = ""
    subject: Any = None
    gradient_of: Callable[..., Any] | None = None
    waive: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
