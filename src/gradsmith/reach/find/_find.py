"""`find`: what a target holds, by importing where that works and by reading where it does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gradsmith.reach._found import Found, Package, Unread
from gradsmith.reach.find._imported import Imported
from gradsmith.reach.find._modules import Modules
from gradsmith.reach.find._reader import Definition
from gradsmith.reach.find._source import Reading
from gradsmith.reach.find._target import resolve

__all__ = ["find"]


def find(target: str, *, progress: Callable[[str], None] | None = None, skip: Collection[str] = ()) -> Package:
    """Every custom gradient of a target.

    All files are read; only those are imported that may define a gradient or keep one that a function of another file
    made, with the packages they are in and what they import themselves. A Function that comes about elsewhere, by a
    call of `type` that is not written in the target, is not looked for.

    Args:
        target: A package, distribution, module, folder or file.
        progress: Hears the name of each module before it runs, and again when it goes on after one it imports: the
            last name that is heard before the process ends is the one to skip.
        skip: Modules that are not to be imported; those that import them get an ImportError.

    Raises:
        UsageError: there is no such target.
    """
    resolved = resolve(target)
    reading = Reading(resolved.files)
    modules = Modules(resolved, skip)
    wanted = [m for m in resolved.files if m in reading.telling - reading.unread.keys() - resolved.only_read]
    modules.import_all(wanted, progress or (lambda module: None))
    imported = Imported(modules, reading)
    found = dict(imported.found)
    for key, definition in reading.definitions.items():
        if key not in found and key not in imported.covered and not (definition.name == "" or _has(found, definition)):
            found[key] = _only_read(definition, reading, modules)
    failed = {**reading.unread, **{module: f"it {why}" for module, why in modules.failed.items()}}
    return Package(
        target,
        resolved.name,
        resolved.version,
        resolved.root,
        resolved.search,
        tuple(sorted(found.values(), key=lambda f: (f.file, f.line, f.name))),
        tuple(Unread(module, str(resolved.files[module]), why) for module, why in sorted(failed.items())),
    )


def _has(found: Collection[tuple[str, str]], definition: Definition) -> bool:
    """An operator has one name, wherever its parts are written."""
    return "::" in definition.name and any(name == definition.name for _, name in found)


def _only_read(definition: Definition, reading: Reading, modules: Modules) -> Found:
    """One that only reading found: its module did not import, or it does not exist until something is called."""
    name, module = definition.name, definition.module
    exempt = definition.kind == "Function" and (
        not reading.has_gradient(definition) or (definition.abstract and (module, name) in reading.inherited)
    )
    if module in modules.target.only_read:
        why = f"{Path(definition.file).name} is read, and never imported: it is a program or a test"
    else:
        why = modules.why(module)
        if not why and "<locals>" in name:
            why = f"made inside of {name.split('.<locals>')[0]}()"
    why = why or reading.unread.get(module) or f"importing {module} does not make it"
    return Found(name, module, definition.file, definition.line, definition.kind, False, why, exempt)
