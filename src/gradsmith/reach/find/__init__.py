"""Which custom gradients a package, folder, module or file holds.

Both names are loaded at first use: they import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsmith.reach.find._find import find
    from gradsmith.reach.find._load import load

__all__ = ["find", "load"]


def __getattr__(name: str) -> Any:
    if name == "find":
        from gradsmith.reach.find._find import find

        return find
    if name == "load":
        from gradsmith.reach.find._load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
