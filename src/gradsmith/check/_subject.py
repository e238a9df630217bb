"""What is judged: how to call it, what it is made of, and which derivative it means to have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Function

from gradsmith.declare import CustomGradient, DeclaredFunction, SurrogateGradient
from gradsmith.declare._private import OPERATORS, CustomOpDef, operator_definition, operator_facts
from gradsmith.errors import UsageError

__all__ = ["Subject", "fitted"]


class Subject:
    """A callable with a custom gradient, seen alike whatever it was written as.

    Attributes:
        kind: "Function", "declared", "custom_op", "Module" or "function".
        name: What the author calls it.
        call: Runs it on arguments, with its gradient.
        plain: Runs its forward as ordinary differentiable operations, where that can be done.
        intent: The callable whose derivative its gradient is meant to be, where that was declared.
        written: The object whose source is read.
    """

    def __init__(self, subject: Any, gradient_of: Callable[..., Any] | None = None) -> None:
        subject = _class_of_apply(_uncompiled(subject))
        if isinstance(subject, OPERATORS):
            subject = operator_definition(subject)
        self.written: Any = subject
        self.intent: Callable[..., Any] | None = gradient_of
        self.plain: Callable[..., Any] | None = None
        self.parameters: dict[str, torch.Tensor] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.call: Callable[..., Any]
        self.function: type[Function] | None = None
        if isinstance(subject, type) and issubclass(subject, Function):
            self._of_function(subject)
        elif isinstance(subject, DeclaredFunction):
            self._of_declared(subject)
        elif isinstance(subject, CustomOpDef):
            self._of_custom_op(subject)
        elif isinstance(subject, torch.nn.Module):
            self._of_module(subject)
        elif isinstance(subject, Function):
            raise UsageError(f"subject: got an instance of {type(subject).__name__}; pass the class itself")
        elif isinstance(subject, type) and issubclass(subject, torch.nn.Module):
            raise UsageError(
                f"subject: got the class {subject.__name__}; pass a module, such as {subject.__name__}(...)"
            )
        elif isinstance(subject, OPERATORS):
            self.kind, self.name, self.call = "custom_op", str(subject), subject
        elif callable(subject):
            self.kind, self.name, self.call = "function", _name(subject), subject
            if self.intent is None:
                self.intent = getattr(subject, "__gradient_of__", None)
        else:
            raise UsageError(
                f"subject: got {_short(subject)}, which cannot be called; expected an autograd.Function class, a "
                f"declared gradient, a custom_op, an nn.Module or a function"
            )

    def _of_function(self, function: type[Function]) -> None:
        self.kind, self.name, self.call, self.function = "Function", function.__name__, function.apply, function
        if self.intent is None:
            self.intent = getattr(function, "__gradient_of__", None)
        self.plain = functools.partial(plain_forward, function)

    def _of_declared(self, declared: DeclaredFunction[..., Any]) -> None:
        self.kind, self.name, self.call = "declared", declared.__name__, declared
        self.written = declared._function
        if self.intent is None:
            self.intent = getattr(declared, "__gradient_of__", None)
        if isinstance(declared, SurrogateGradient):
            self.intent = self.intent or declared.surrogate
        elif isinstance(declared, CustomGradient):
            self.plain = functools.partial(_without_intermediates, declared)

    def _of_custom_op(self, op: CustomOpDef) -> None:
        facts = operator_facts(op)
        self.kind, self.name, self.call = "custom_op", facts.name, op
        self.plain = facts.parts.get("forward")
        self.written = op

    def _of_module(self, module: torch.nn.Module) -> None:
        self.kind, self.name = "Module", type(module).__name__
        self.parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        fixed = {n: p for n, p in module.named_parameters() if not p.requires_grad}
        self.buffers = {**fixed, **dict(module.named_buffers())}
        if self.intent is None:
            self.intent = getattr(module, "__gradient_of__", None)

        def call(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
            dtype = next((p.dtype for p in parameters.values() if p.is_floating_point()), None)
            buffers = {
                n: b.to(dtype, copy=True) if dtype is not None and b.is_floating_point() else b.clone()
                for n, b in self.buffers.items()
            }
            return torch.func.functional_call(module, {**parameters, **buffers}, args, kwargs)

        def alone(*args: Any, **kwargs: Any) -> Any:
            return module(*args, **kwargs)

        self.call = call if self.parameters else alone

    @property
    def signature(self) -> list[inspect.Parameter]:
        """The parameters of the forward that an argument can be given for, as far as they are known."""
        target: Any = self.call
        if self.function is not None:
            target = self.function.forward
        elif self.kind == "Module":
            target = self.written.forward
        elif self.kind == "custom_op" and self.plain is not None:
            target = self.plain
        try:
            parameters = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            return []
        found = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return found[1:] if self.function is not None and not _has_setup_context(self.function) else found

    def misfit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why these arguments cannot be passed at all; empty where they can, or where that is not known."""
        try:
            target: Any = self.function.forward if self.function is not None else self.call
            signature = inspect.signature(target)
        except (TypeError, ValueError):
            return ""
        if self.function is not None and not _has_setup_context(self.function):
            args = (None, *args)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return f"{self.name}{signature} cannot take them: {error}"
        return ""

    @property
    def parameter_names(self) -> list[str]:
        return [p.name for p in self.signature]

    def defaults(self, given: int) -> list[tuple[str, Any]]:
        """Names and values of the options that come after so many positional arguments."""
        given -= bool(self.parameters)
        rest = [p for p in self.signature[given:] if p.kind is not p.KEYWORD_ONLY]
        return [] if any(p.default is p.empty for p in rest) else [(p.name, p.default) for p in rest]


def _uncompiled(subject: Any) -> Any:
    """What was compiled: the check compiles it itself, and a compiled call hides what the eager one does."""
    if isinstance(subject, torch.nn.Module):
        return getattr(subject, "_orig_mod", subject)
    if inspect.isfunction(subject) and not getattr(subject, "_torchdynamo_disable", False):
        return getattr(subject, "_torchdynamo_orig_callable", subject)
    return subject


def _class_of_apply(subject: Any) -> Any:
    """The class where `Class.apply` was given."""
    owner = getattr(subject, "__self__", None)
    if inspect.ismethod(subject) and subject.__name__ == "apply" and isinstance(owner, type):
        return owner if issubclass(owner, Function) else subject
    return subject


def _has_setup_context(function: type[Function]) -> bool:
    return function.setup_context is not Function.setup_context


class PlainContext:
    """Stands in for ctx while a forward runs as ordinary operations: it takes what it is given."""

    def __init__(self, count: int) -> None:
        self.needs_input_grad = (True,) * count
        self.saved_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        pass

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        pass


def plain_forward(function: type[Function], *args: Any, **kwargs: Any) -> Any:
    """The forward of a Function as ordinary operations, differentiated by autograd where it is made of them."""
    if _has_setup_context(function):
        return function.forward(*args, **kwargs)
    return function.forward(PlainContext(len(args)), *args, **kwargs)


def _without_intermediates(declared: CustomGradient[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = declared._function(*args, **kwargs)
    return getattr(result, "output", result) if declared._rule.forward.keep else result


def fitted(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A callable that takes the subject's arguments, from one that may take only some of them.

    It gets all where it takes them, else those it names, else the first ones.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    parameters = signature.parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            pass
        else:
            return function(*args, **kwargs)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        required = [p for p in positional if p.default is p.empty]
        if names and all(p.name in given for p in required) and len(required) < len(args) + len(kwargs):
            return function(**{p.name: given[p.name] for p in positional if p.name in given})
        return function(*args[: len(positional)])

    return call


def _name(subject: Any) -> str:
    if isinstance(subject, functools.partial):
        return _name(subject.func)
    return getattr(subject, "__qualname__", None) or getattr(subject, "__name__", None) or type(subject).__name__


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  (the author's code may raise anything)
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:40]}..."
