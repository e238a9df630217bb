"""One call tried: forward, then backward, and whether a gradient came of it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from gradsmith.check._guard import Clock, OvertimeError, plain_surroundings, seed_everything, text_of
from gradsmith.check._subject import Subject
from gradsmith.errors import UsageError
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.search._blame import blamed
from gradsmith.reach.inputs.search._signature import parameters_of

__all__ = ["Attempt", "attempt"]


@dataclass(frozen=True)
class Attempt:
    """What came of a call.

    Args:
        stage: What it reached: "forward", "backward", "no gradient", "not finite" or "done".
        error: What was raised there, type and text.
        kind: The type alone.
        blamed: The places of the arguments it is about, where that can be told.
    """

    stage: str
    error: str = ""
    kind: str = ""
    blamed: tuple[int, ...] = ()

    @property
    def reached(self) -> bool:
        return self.stage == "done"


def attempt(subject: Any, call: Call, seconds: float) -> Attempt:
    """Call a subject, and run its backward. Whatever is raised is told, not raised."""
    stage = "forward"
    passed = tuple(_copy(a) for a in call.args)
    try:
        function = Subject(subject).call
        leaves = [t for t in _tensors((*call.args, *call.kwargs.values())) if t.requires_grad]
        seed_everything(0)
        with Clock(seconds).limit(seconds), plain_surroundings(torch.device("cpu")), torch.enable_grad():
            result = function(*passed, **{k: _copy(a) for k, a in call.kwargs.items()})
            outputs = [o for o in _tensors(result) if o.requires_grad]
            if not outputs:
                return Attempt("no gradient", "what it returns does not require grad")
            stage = "backward"
            grads = torch.autograd.grad(
                outputs, leaves, [_incoming(o) for o in outputs], allow_unused=True, materialize_grads=False
            )
    except (KeyboardInterrupt, UsageError):
        raise
    except OvertimeError:
        return Attempt(stage, f"it did not come back within {seconds:g} s", "timeout")
    except BaseException as error:  # noqa: BLE001  (the package's code may raise anything)
        line = " ".join(text_of(error).split())[:600]
        kind = type(error).__name__
        return Attempt(stage, f"{kind}: {line}", kind, _about(error, subject, passed))
    got = [g for g in grads if g is not None]
    if not got:
        return Attempt("no gradient", "backward returns None for every input")
    if not any(bool(torch.isfinite(_dense(g)).all()) for g in got):
        return Attempt("not finite", "the gradient is not finite")
    return Attempt("done")


def _about(error: BaseException, subject: Any, passed: tuple[Any, ...]) -> tuple[int, ...]:
    try:
        file = inspect.getfile(subject if inspect.isclass(subject) else inspect.unwrap(subject))
    except (TypeError, ValueError):
        file = ""
    return blamed(error, [p.name for p in parameters_of(subject) if not p.variadic], passed, file)


def _copy(value: Any) -> Any:
    """Leaves stay the tensors that gradients are asked of; what is written to in place must be no leaf."""
    return value.clone() if isinstance(value, torch.Tensor) and value.requires_grad else value


def _incoming(output: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(output) if output.layout is torch.strided else output.detach().clone()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _tensors(value: Any, depth: int = 0) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() or value.is_complex() else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth < 4:
        return [t for item in value for t in _tensors(item, depth + 1)]
    return []
