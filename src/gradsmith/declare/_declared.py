"""The callable objects a declaration returns: functions in all but type, with a way to pickle."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from gradsmith.declare._explicit import Explicit
from gradsmith.declare._forward import Forward
from gradsmith.declare._route import Rule, make_run
from gradsmith.declare._surrogate import Surrogate
from gradsmith.errors import DeclarationError

__all__ = ["CustomGradient", "DeclaredFunction", "SurrogateGradient", "checked_callable"]

P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Callable[..., Any])


class DeclaredFunction(Generic[P, R]):
    """A function with a declared gradient: same name, signature, docstring and types as the function it wraps."""

    def __init__(self, function: Callable[P, R], rule: Rule) -> None:
        # A class of its own lets a call go straight to the compiled wrapper: __call__ is looked up on the class.
        kind, run = type(self), make_run(rule, self)
        call = rule.forward.signature.wrapper(function, run)
        self.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__call__": call})
        self._function = function
        self.__name__ = self.__qualname__ = rule.forward.name  # for callables that have none themselves
        functools.update_wrapper(self, function)
        if (self.__module__ or "torch").split(".")[0] == "torch":
            self.__module__ = __name__  # torch.fx would write `torch.round` for what is no longer torch's

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__qualname__}>"

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return self._global_name() or self._rebuild()

    def _rebuild(self) -> Any:
        return f"{self.__qualname__}"  # pickle then says that it does not find it, as for any local function

    def _global_name(self) -> str | None:
        """The name under which the module of this object holds it, as pickle finds functions."""
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        name: str = getattr(self, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else None


class CustomGradient(DeclaredFunction[P, R]):
    """A function whose gradient is written by hand: what `custom_gradient` returns."""

    def __init__(self, function: Callable[P, R], rule: Explicit) -> None:
        super().__init__(function, rule)
        self._rule = rule

    def backward(self, function: B, /) -> B:
        """Declare the gradient; used as a decorator. See `custom_gradient`."""
        self._rule.set_backward(checked_callable(function, f"{self._rule.forward.name}.backward"))
        return function


class SurrogateGradient(DeclaredFunction[P, R]):
    """A function with the gradient of another: what `gradient_of` and `straight_through` return."""

    def __init__(self, function: Callable[P, R], rule: Surrogate) -> None:
        super().__init__(function, rule)
        self.surrogate = rule.surrogate

    def __deepcopy__(self, memo: Any) -> Any:
        function, surrogate = copy.deepcopy((self._function, self.surrogate), memo)
        if function is self._function and surrogate is self.surrogate:
            return self
        return _surrogate_gradient(function, surrogate)  # of a module, with the module's state copied too

    def _rebuild(self) -> Any:
        return _surrogate_gradient, (self._function, self.surrogate)


def _surrogate_gradient(function: Callable[..., Any], surrogate: Callable[..., Any]) -> Any:
    return SurrogateGradient(function, Surrogate(Forward(function), surrogate))


def checked_callable(function: Any, where: str) -> Any:
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        raise DeclarationError(
            f"{where} was given a {kind}; declare it outside the class, and inside write name = {kind}(function)"
        )
    if not callable(function):
        raise DeclarationError(f"{where} expects a function, not {function!r}")
    return function
