"""From what was found, as plain data, to the object."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import torch

from gradsmith.check._guard import Clock, quiet
from gradsmith.check.command._importing import failure
from gradsmith.declare._private import custom_operators
from gradsmith.errors import UsageError
from gradsmith.reach._found import Found, Package
from gradsmith.reach.find._modules import import_one

__all__ = ["load", "walk"]

_SECONDS = 60.0  # for its module to be imported


def load(found: Found, package: Package) -> Any:
    """The object that was found: a class, a `custom_op`, an operator of `torch.ops` or a declared function.

    Raises:
        UsageError: it cannot be had; the message says why.
    """
    if "<locals>" in found.name:
        raise UsageError(f"{found.id}: {found.why or 'it exists only inside of a call'}")
    sys.path += [folder for folder in package.search if folder not in sys.path]
    with quiet():
        try:
            with Clock(_SECONDS).limit(_SECONDS):
                module = import_one(found.module, Path(found.file))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (a module may raise anything)
            raise UsageError(f"{found.module} does not import: {failure(error, Path(found.file))}") from None
    thing = _operator(found.name) if "::" in found.name else walk(module, found.name)
    if thing is None:
        raise UsageError(f"{found.module} has no {found.name}" + (f": {found.why}" if found.why else ""))
    return thing


def _operator(name: str) -> Any:
    made = {known: definition for known, definition, _ in custom_operators()}
    library, _, short = name.partition("::")
    return made.get(name) or getattr(getattr(torch.ops, library, None), short, None)


def walk(root: Any, name: str) -> Any:
    """What stands under a dotted name; None where there is nothing."""
    for part in name.split("."):
        try:
            root = inspect.getattr_static(root, part) if isinstance(root, type) else getattr(root, part)
        except Exception:  # noqa: BLE001  (modules may find what is asked of them themselves)
            return None
    return root.__func__ if isinstance(root, staticmethod) else root
