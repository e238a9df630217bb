"""The recorder: meets every call of a custom gradient, and keeps a few of each.

Whatever goes wrong in it stays in it: the program that is recorded gets its results, its errors and its time.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradsmith
from gradsmith.reach.inputs.record._describe import in_words, signature, tensors_in
from gradsmith.reach.inputs.record._frames import MOST_CALLS, Frame
from gradsmith.reach.inputs.record._pickle import Unreal, Unsaved, dumps, importable
from gradsmith.reach.inputs.record._private import operator_call, unwatch, watch

__all__ = ["Recorder", "declared_too", "identity", "start", "stop"]

_MOST_TRIES = 4 * MOST_CALLS  # of saving a call of one function
_LARGE = 1 << 20  # calls with more bytes than that share a budget
_MOST_LARGE = 256 << 20
_HERE = str(Path(gradsmith.__file__).parent) + os.sep


@dataclass
class _Kept:
    """What is known of one function."""

    sizes: dict[str, tuple[bool, int]] = field(default_factory=dict)  # by signature: differentiable, bytes
    tries: int = 0

    def wants(self, form: str, differentiable: bool, size: int) -> bool:
        if form in self.sizes or self.tries >= _MOST_TRIES:
            return False
        if len(self.sizes) < MOST_CALLS:
            return True
        worst = min(self.sizes.values(), key=lambda kept: (kept[0], -kept[1]))
        return (differentiable and not worst[0]) or (differentiable == worst[0] and 2 * size < worst[1])


class Recorder:
    """Keeps calls.

    Args:
        keep: Takes each call, and the function that was called.
    """

    def __init__(self, keep: Callable[[Frame, Any], None]) -> None:
        self._keep = keep
        self._known: dict[str, _Kept] = {}
        self._large = 0
        self._inside = threading.local()

    def met(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None] | None:
        """Before a call: take it down. What is returned is to be called where it went well."""
        if getattr(self._inside, "saving", False):
            return None  # a Function that runs because another call is being saved
        self._inside.saving = True
        try:
            return self._taken(cls, args, kwargs)
        except Exception:  # noqa: BLE001  (the program goes on, whatever its objects do when they are looked at)
            return None
        finally:
            self._inside.saving = False

    def _taken(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None] | None:
        operator = operator_call(cls, args) if isinstance(cls, type) else None
        if operator is not None:
            name, args, kwargs = operator
        elif _is_a_part(cls):
            return None
        else:
            name = identity(cls)
        kept = self._known.setdefault(name, _Kept())
        if kept.tries >= _MOST_TRIES:
            return None
        tensors = list(tensors_in((args, kwargs)))
        size = sum(t.numel() * t.element_size() for t in tensors)
        differentiable = any(t.requires_grad for t in tensors)
        form = f"{signature(args, kwargs)}{_line(cls)}"  # classes of one factory may share their name
        if not kept.wants(form, differentiable, size):
            return None
        kept.tries += 1
        carried = isinstance(cls, type) and operator is None and not importable(cls)
        head = {"id": name, "call": in_words(args, kwargs), "signature": form, "size": size}
        head |= {"differentiable": differentiable, "carried": carried, "path": _search_path(), **_place(cls, operator)}
        try:
            if self._large + size > _MOST_LARGE and size > _LARGE:
                raise Unsaved(f"calls with more than {_MOST_LARGE >> 20} MB were saved before it")
            body = dumps(cls if carried else None, args, kwargs)
        except Unreal:
            kept.tries -= 1
            return None
        except Unsaved as error:
            self._keep(Frame({**head, "why": str(error)}), cls)
            return None
        if len(body) > _LARGE:
            self._large += len(body)
        kept.sizes[form] = (differentiable, size)
        return lambda: self._kept(Frame(head, body), cls)

    def _kept(self, frame: Frame, cls: Any) -> None:
        with contextlib.suppress(Exception):  # a full disk is no reason to end the program
            self._keep(frame, cls)


def _is_a_part(cls: Any) -> bool:
    """Whether it is a Function of torch or gradsmith: others are made of it."""
    root = cls.__module__.partition(".")[0]
    if root != "gradsmith":
        return bool(root == "torch")
    code = getattr(getattr(cls, "forward", None), "__code__", None)
    return code is None or code.co_filename.startswith(_HERE)  # what an example in a docstring makes is the reader's


# --- who it is ---------------------------------------------------------------------------------------


def identity(cls: Any) -> str:
    """The name under which the function is found: "package.module:Clip", of a script "script:Clip"."""
    module = cls.__module__
    if module in ("__main__", "__mp_main__"):
        module = _main_name(sys.modules.get(module))
    return f"{module}:{cls.__qualname__}"


def _main_name(main: Any) -> str:
    """What the module that runs as a program is called when it is imported."""
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name != "__mp_main__":
        return str(spec.name)
    if not file:
        return "__main__"
    path = Path(file)
    parts = [path.stem]
    for folder in path.absolute().parents:
        if not (folder / "__init__.py").exists():
            break
        parts.append(folder.name)
    return ".".join(reversed(parts))


def _place(cls: Any, operator: Any) -> dict[str, Any]:
    """File and line of the definition, where they can be told."""
    if operator is not None:
        return {"file": "", "line": 0}
    cls = inspect.unwrap(cls)  # of a declared gradient the function that was declared
    forward = inspect.unwrap(getattr(cls, "forward", cls))
    code = getattr(forward, "__code__", None)
    file = code.co_filename if code is not None else ""
    try:
        line = inspect.getsourcelines(cls)[1]
    except (OSError, TypeError, IndexError, SyntaxError):
        line = code.co_firstlineno if code is not None else 0
    return {"file": os.path.abspath(file) if os.path.exists(file) else "", "line": line}


def _line(cls: Any) -> str:
    code = getattr(getattr(cls, "forward", None), "__code__", None)
    return f":{code.co_firstlineno}" if code is not None else ""


def _search_path() -> list[str]:
    """The folders that modules are imported from, but for what is installed."""
    folders = [os.path.abspath(folder) for folder in sys.path]
    prefixes = (sys.prefix, sys.base_prefix)
    return [f for f in dict.fromkeys(folders) if os.path.isdir(f) and not f.startswith(prefixes)]


# --- on and off --------------------------------------------------------------------------------------

_running: tuple[Recorder, ...] = ()
_changing = threading.Lock()


def start(recorder: Recorder) -> None:
    """Let a recorder meet every call in this process from now on."""
    global _running
    with _changing:
        if not _running:
            watch(_met)
            if "gradsmith.declare._declared" in sys.modules:
                declared_too()
        _running = (*_running, recorder)


def stop(recorder: Recorder) -> None:
    global _running
    with _changing:
        _running = tuple(r for r in _running if r is not recorder)
        if not _running:
            unwatch()
            if "gradsmith.reach.inputs.record._declared" in sys.modules:
                from gradsmith.reach.inputs.record._declared import unwatch_declared

                unwatch_declared()


def declared_too() -> None:
    """Meet calls of declared gradients as well; whoever has not imported `gradsmith.declare` has none."""
    from gradsmith.reach.inputs.record._declared import watch_declared

    watch_declared(_met)


def _met(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None] | None:
    running = _running
    if len(running) == 1:
        return running[0].met(cls, args, kwargs)
    done = [end for recorder in running if (end := recorder.met(cls, args, kwargs)) is not None]

    def all_done() -> None:
        for end in done:
            end()

    return all_done if done else None
