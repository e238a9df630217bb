"""Recorded calls, to look at and to run again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradsmith.errors import UsageError
from gradsmith.reach._found import Found
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.record._describe import map_tensors, tensors_in
from gradsmith.reach.inputs.record._frames import Frame, best, read, write
from gradsmith.reach.inputs.record._pickle import loads

if TYPE_CHECKING:
    from gradsmith.check import Report

__all__ = ["Recorded", "RecordedCall", "load_calls"]


class RecordedCall:
    """One call of one custom gradient.

    Attributes:
        name: "package.module:Clip", or "library::name" of an operator.
        in_words: Its arguments on one line; the star marks what requires grad.
        differentiable: Whether something does; where nothing did, every floating-point tensor is made to.
        file: Where the function is defined, with `line`.
    """

    def __init__(self, frame: Frame, live: Any = None) -> None:
        head = frame.head
        self.name = frame.id
        self.in_words = str(head.get("call", ""))
        self.file, self.line = str(head.get("file", "")), int(head.get("line", 0))
        self.carried = bool(head.get("carried"))
        self.differentiable = bool(head.get("differentiable"))
        self.frame = frame
        self._live = live
        self._loaded: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None

    def load(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The function where the call carries it, args and kwargs, made at the first use.

        Raises:
            UsageError: it cannot be had any more; the message says why.
        """
        if self._loaded is None:
            known = set(sys.path)
            sys.path += [f for f in self.frame.head.get("path", ()) if f not in known and Path(f).is_dir()]
            try:
                subject, args, kwargs = loads(self.frame.body)
            except Exception as error:  # noqa: BLE001  (it runs whatever the objects need to be made again)
                said = " ".join(str(error).split())[:200]
                raise UsageError(
                    f"a recorded call of {self.name} cannot be loaded ({type(error).__name__}: {said}); record it again"
                ) from None
            if not any(t.requires_grad for t in tensors_in((args, kwargs))):
                args, kwargs = map_tensors(_differentiable, args), map_tensors(_differentiable, kwargs)
            self._loaded = subject, args, kwargs
        return self._loaded

    @property
    def subject(self) -> Any:
        """What was called: an autograd.Function class, or an operator."""
        if self._live is not None and "::" not in self.name:
            return self._live
        return self.load()[0] if self.carried else _found(self.name)

    @property
    def args(self) -> tuple[Any, ...]:
        return self.load()[1]

    @property
    def kwargs(self) -> dict[str, Any]:
        return self.load()[2]

    def __repr__(self) -> str:
        return f"<RecordedCall {self.name}({self.in_words})>"


class Recorded:
    """Calls that were recorded, the best of each function: those to differentiate in first, then small ones.

    Args:
        command: What was recorded, in words.
    """

    def __init__(self, frames: Iterable[Frame] = (), command: str = "") -> None:
        self.command = command
        self._met: list[tuple[Frame, Any]] = [(frame, None) for frame in frames]
        self._broken: dict[str, str] = {}
        self.unchecked: dict[str, str] = {}
        """Why `check` passed over a function, by name."""

    def take(self, frame: Frame, live: Any) -> None:
        """Add a call of a function that lives in this process."""
        self._met.append((frame, live))

    def _kept(self) -> list[Frame]:
        return best(frame for frame, _ in tuple(self._met))

    @property
    def unsaved(self) -> dict[str, str]:
        """Why a call of a function could not be saved or loaded, by name."""
        reasons = {frame.id: f"recorded, but {frame.why}" for frame in self._kept() if frame.why}
        return {**reasons, **self._broken}

    def __iter__(self) -> Iterator[RecordedCall]:
        live = {id(frame): thing for frame, thing in tuple(self._met)}
        return iter([RecordedCall(frame, live[id(frame)]) for frame in self._kept() if not frame.why])

    def __len__(self) -> int:
        return sum(not frame.why for frame in self._kept())

    def ids(self) -> list[Found]:
        """Every function that was met, saved or not, as what is found in a package."""
        met: dict[str, Found] = {}
        for frame in self._kept():
            module, _, name = ("", "", frame.id) if "::" in frame.id else frame.id.partition(":")
            why = f"made inside of {name.split('.<locals>')[0]}()" if "<locals>" in name else ""
            kind = "Function" if module else "operator"
            head = frame.head
            met.setdefault(frame.id, Found(name, module, head.get("file", ""), head.get("line", 0), kind, not why, why))
        return list(met.values())

    def calls_for(self, name: str, file: str = "") -> list[Call]:
        """The calls of one function; what cannot be loaded is noted in `unsaved`.

        Args:
            name: As `Found.id`.
            file: Where it is defined: a script is found by it under whatever name its module goes.
        """
        calls = []
        for call in self:
            same_place = file and file == call.file and call.name.partition(":")[2] == name.partition(":")[2]
            if call.name != name and not same_place:
                continue
            try:
                subject, args, kwargs = call.load()
                if subject is None and "<locals>" in call.name:
                    raise UsageError("a gradient that is declared inside of a function does not go along with its call")
            except UsageError as error:
                self._broken[name] = str(error)
                continue
            where = self.command if call.differentiable else f"{self.command}, called without gradients"
            calls.append(Call(args, kwargs, "recorded", where, subject))
        return calls

    def save(self, path: str | Path) -> None:
        """Write the calls to a file, for `gradsmith check PACKAGE --calls FILE`."""
        write(Path(path), [Frame({"command": self.command}), *self._kept()])

    def check(self, **options: Any) -> dict[str, Report]:
        """Check each function with its calls; of one with findings the report of the call that shows them.

        Args:
            options: As those of `gradsmith.check`.

        Returns:
            The reports by name. Why a function has none is in `unchecked`.
        """
        from gradsmith.check import check

        reports: dict[str, Report] = {}
        self.unchecked = {}
        for call in self:
            if call.name in reports and not reports[call.name].ok:
                continue
            try:
                report = check(call.subject, call.args, kwargs=call.kwargs, **options)
            except UsageError as error:
                self.unchecked.setdefault(call.name, str(error))
                continue
            if call.name not in reports or not report.ok:
                reports[call.name] = report
        return reports

    def __repr__(self) -> str:
        lines = [f"{len(self)} recorded calls of {len({call.name for call in self})} functions"]
        lines += [f"  {call.name}({call.in_words})" for call in self]
        lines += [f"  not saved: {name}: {why}" for name, why in self.unsaved.items()]
        return "\n".join(lines)


def load_calls(path: str | Path) -> Recorded:
    """Read a file that `gradsmith record` or `Recorded.save` wrote. Calls are unpickled: open only files you trust.

    Raises:
        UsageError: there is no such file, or it holds no recorded calls.
    """
    try:
        frames = list(read(Path(path)))
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}; expected a file of recorded calls") from None
    if not frames:
        raise UsageError(f"{str(path)!r} holds no recorded calls; write it with: gradsmith record -o {path} -- COMMAND")
    command = next((str(f.head["command"]) for f in frames if "command" in f.head), "")
    return Recorded([f for f in frames if f.id], command)


def _differentiable(tensor: torch.Tensor) -> torch.Tensor:
    """Of a call that was made without gradients: its gradient is asked for all the same."""
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.requires_grad_()
    return tensor


def _found(name: str) -> Any:
    """The function of a name, imported."""
    module, _, inside = name.partition("::") if "::" in name else name.partition(":")
    try:
        found: Any = getattr(torch.ops, module) if "::" in name else importlib.import_module(module)
        for part in inside.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001  (the package's own import)
        raise UsageError(f"{name} is not found any more: {type(error).__name__}: {error}") from None
    return found
