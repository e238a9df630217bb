"""How the author of a custom gradient writes down what to call it with."""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradsmith.errors import UsageError
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.cases._subject import Subject, is_maker, subject_of

__all__ = ["REGISTERED", "Case", "case", "cases"]

Maker = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """What one use of `cases` says; nothing of it is run before it is asked for."""

    subject: Subject
    maker: Maker
    where: str
    gradient_of: Callable[..., Any] | None = None
    waive: tuple[str, ...] = ()


REGISTERED: dict[tuple[str, str], Case] = {}  # by subject and place: a factory that runs often counts once


def case(*args: Any, **kwargs: Any) -> Call:
    """One call with keyword arguments, or one whose single argument is a tuple: what a function of cases may yield.

    Example:
        >>> import gradsmith as gs
        >>> gs.case(1.0, mode="a").kwargs
        {'mode': 'a'}
    """
    return Call(args, kwargs, source="case")


def cases(
    subject: Any,
    /,
    *,
    gradient_of: Callable[..., Any] | None = None,
    waive: tuple[str, ...] | str = (),
) -> Callable[[Any], Any]:
    """Say what a custom gradient is to be called with when its package is checked.

    Above a function without parameters, `subject` says what the cases are for, by name ("package.module:Clip",
    "library::name", or "package" for whatever is met) or as the object. The function yields (or returns) cases: a
    tuple of arguments, a tensor, or `case(...)` with keywords. One that yields none but uses the package has the calls
    recorded that it makes. Tensors whose gradient matters require grad.

    Above the custom gradient itself, `subject` is the function of cases, such as a lambda; what is decorated stays as
    it is. Both tell each other apart by this: a function that takes no parameters makes cases, all else is a subject.

    Args:
        subject: See above.
        gradient_of: The declared intent, as for `check`.
        waive: Laws or rule codes that are given up, as for `check`.

    Raises:
        UsageError: a name that is none, or a function of cases that wants parameters.

    Example:
        >>> import torch, gradsmith as gs
        >>> @gs.cases(lambda: (torch.randn(3, requires_grad=True), 0.5))
        ... class Half(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 0.5, None
        >>> @gs.cases(Half, waive="linearity")
        ... def _():
        ...     yield torch.randn(3, 4, requires_grad=True), 0.5
        ...     yield gs.case(torch.randn(2, requires_grad=True), factor=2.0)
    """
    if gradient_of is not None and not callable(gradient_of):
        raise UsageError(f"cases: gradient_of is {gradient_of!r}; expected a callable")
    given_up = (waive,) if isinstance(waive, str) else tuple(waive)
    if is_maker(subject):

        def decorate(target: Any) -> Any:
            _register(Case(subject_of(target), subject, _place(subject), gradient_of, given_up))
            return target

        return decorate
    meant = subject_of(subject)

    def take(maker: Maker) -> Maker:
        if not is_maker(maker):
            raise UsageError(
                f"cases: got {maker!r} for the cases of {meant.name}; expected a function without parameters, that "
                "yields tuples of arguments"
            )
        _register(Case(meant, maker, _place(maker), gradient_of, given_up))
        return maker

    return take


def _register(made: Case) -> None:
    REGISTERED[made.subject.name, made.where] = made


def _place(maker: Any) -> str:
    code: types.CodeType = maker.__code__
    file = os.path.abspath(code.co_filename).removeprefix(os.getcwd() + os.sep)
    return f"{file}:{code.co_firstlineno}"
