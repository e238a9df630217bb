"""`find`: what a target holds, by importing where that works and by reading where it does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gradsmith.reach._found import Found, Package, Unread
from gradsmith.reach.find._imported import Imported, import_all
from gradsmith.reach.find._source import Definition, Reading, read
from gradsmith.reach.find._target import resolve

__all__ = ["find"]


def find(target: str, *, progress: Callable[[str], None] = lambda module: None, skip: Collection[str] = ()) -> Package:
    """Every custom gradient of a target.

    Only modules whose text speaks of gradients are imported, with what they import themselves.

    Args:
        target: A package, distribution, module, folder or file.
        progress: Hears the name of each module before it is imported.
        skip: Modules that are not to be imported.

    Raises:
        UsageError: there is no such target.
    """
    resolved = resolve(target)
    reading = read(resolved.files)
    imported = import_all(resolved, [m for m in resolved.files if m in reading.telling], progress, skip)
    found = dict(imported.found)
    for definition in reading.found():
        key = (definition.module, definition.name)
        if key not in found:
            found[key] = _read_only(definition, reading, imported, skip)
    unread = [
        Unread(module, str(resolved.files.get(module, "")), why)
        for module, why in sorted({**reading.unread, **imported.failed}.items())
    ]
    return Package(
        target,
        resolved.name,
        resolved.version,
        resolved.root,
        resolved.search,
        tuple(sorted(found.values(), key=lambda f: (f.file, f.line, f.name))),
        tuple(unread),
    )


def _read_only(definition: Definition, reading: Reading, imported: Imported, skip: Collection[str]) -> Found:
    """One that only reading found: its module did not import, or it does not exist until something is called."""
    name, module = definition.name, definition.module
    exempt = definition.kind == "Function" and (not reading.has_backward(definition) or definition.abstract)
    if "<locals>" in name:
        why = f"made inside of {name.split('.<locals>')[0]}()"
    elif module in skip:
        why = "its module ends the process when it is imported"
    else:
        why = imported.failed.get(module) or f"{Path(definition.file).name} does not make it when it is imported"
    return Found(name, module, definition.file, definition.line, definition.kind, False, why, exempt)
