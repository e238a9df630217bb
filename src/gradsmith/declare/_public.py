"""`custom_gradient`, `gradient_of` and `straight_through`: how a gradient is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from gradsmith.declare._declared import CustomGradient, SurrogateGradient, checked_callable
from gradsmith.declare._explicit import Explicit
from gradsmith.declare._forward import Forward
from gradsmith.declare._surrogate import Surrogate, first_argument
from gradsmith.errors import DeclarationError

__all__ = ["custom_gradient", "gradient_of", "straight_through"]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def custom_gradient(function: Callable[P, R], /) -> CustomGradient[P, R]: ...
@overload
def custom_gradient(
    *, keep: Sequence[str] = (), linear: bool = True, gradient_of: Callable[..., Any] | None = None
) -> Callable[[Callable[P, R]], CustomGradient[P, R]]: ...
def custom_gradient(
    function: Callable[..., Any] | None = None,
    /,
    *,
    keep: Sequence[str] = (),
    linear: bool = True,
    gradient_of: Callable[..., Any] | None = None,
) -> Any:
    """Declare a function whose backward is written by hand.

    The forward is an ordinary function of tensors and options. Its backward is declared with `.backward` and takes
    the incoming gradient first, then, *by name*, whatever it needs: parameters of the forward, `output`, or
    intermediates the forward kept. Only what it asks for is saved. It returns the gradient of the differentiable
    input, or a dict `{"name": gradient}` where there are several; each has the shape, dtype and device of its input.

    Everything else follows: `torch.func` (grad, vjp, jacrev, vmap, jvp, jacfwd, hessian), forward mode, double
    backward, `torch.compile(fullgraph=True)`, autocast, checkpointing, saved-tensor hooks.

    Inputs and outputs may be pytrees (dict, list, tuple, NamedTuple, dataclass); the incoming gradient is built like
    the output, with None where an output was not used or has no gradient. Tensors that need a gradient must be
    arguments, not captured. The forward must not write to its arguments, nor the backward to what it is given (that is
    checked where PyTorch counts writes; it does not see those through `.data` or `.numpy()`). An output that is an
    input, or a view of one, shares its memory: writing to it in place writes to the input, whose own gradient knows
    nothing of that, so the input should not be used afterwards.

    Args:
        function: the forward. Floating-point and complex tensors among its arguments get gradients.
        keep: names of intermediates the forward hands over with `return keep(output, name=tensor)`.
        linear: whether the backward is linear in the incoming gradient, as a true derivative is. Say False for one
            that clips or normalises; forward mode, which does not exist for it, then raises.
        gradient_of: where the gradient is meant to differ from the derivative of the forward, the callable whose
            derivative it is, of the same parameters or the first of them. It never runs in training: `check` compares
            the backward with it.

    Returns:
        A function of the same name, signature, docstring and types, that pickles like any function.

    Raises:
        DeclarationError: an unknown name is asked for, a tensor that requires grad is captured, no backward was
            declared, an argument was modified in place.
        GradientError: when the backward runs: a gradient is missing, is given for what has none, or has the wrong
            shape, dtype or device; the incoming gradient was modified in place; or a second derivative is asked for
            that would silently lack a term.

    Example:
        >>> import torch, gradsmith as gs
        >>> @gs.custom_gradient
        ... def square(x):
        ...     return x * x
        >>> @square.backward
        ... def _(grad, x):
        ...     return 2 * x * grad
        >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> square(x).sum().backward()
        >>> x.grad
        tensor([2., 4., 6.])
        >>> torch.func.hessian(lambda x: square(x).sum())(x.detach()).diagonal()
        tensor([2., 2., 2.])
    """
    if gradient_of is not None:
        checked_callable(gradient_of, "custom_gradient(gradient_of=...)")
    if isinstance(keep, str) or not all(isinstance(name, str) for name in keep):
        raise DeclarationError(f"keep is {keep!r}; expected a list of names, such as keep=['mask']")

    def declare(function: Callable[P, R]) -> CustomGradient[P, R]:
        checked_callable(function, "custom_gradient")
        return meant_as(gradient_of)(CustomGradient(function, Explicit(Forward(function, keep), linear=linear)))

    return declare if function is None else declare(function)


F = TypeVar("F", bound=Callable[..., Any])


def meant_as(intent: Callable[..., Any] | None) -> Callable[[F], F]:
    """Mark a function with the callable whose derivative its gradient is meant to be; `check` reads it there."""

    def mark(function: F) -> F:
        if intent is not None:
            function.__gradient_of__ = intent  # type: ignore[attr-defined]
        return function

    return mark


def gradient_of(surrogate: Callable[..., Any], /) -> Callable[[Callable[P, R]], SurrogateGradient[P, R]]:
    """Declare a function whose gradient is that of another one.

    The value is the decorated function's, to the bit; the gradient, of any order and in forward mode too, is the one
    autograd finds for `surrogate`. The decorated function may do anything: round, compare, call numpy.

    Args:
        surrogate: takes the same arguments, by name if its parameters are named like those of the function (it may
            ask for fewer), else by position; returns tensors of the same shapes and dtypes.

    Returns:
        A decorator. The function keeps its name, signature, docstring and types. It pickles as long as the
        function or, where it is not found by its own name, the surrogate and the function do.

    Raises:
        DeclarationError: the surrogate asks for a parameter the function does not have; the function captures a
            tensor that requires grad.
        GradientError: the surrogate's output is not built like the function's.

    Example:
        >>> import torch, gradsmith as gs
        >>> @gs.gradient_of(lambda x: torch.clamp(x, -1, 1))
        ... def sign(x):
        ...     return torch.sign(x)
        >>> x = torch.tensor([-2.0, 0.5, 3.0], requires_grad=True)
        >>> sign(x)
        tensor([-1.,  1.,  1.], grad_fn=<signBackward>)
        >>> sign(x).sum().backward()
        >>> x.grad
        tensor([0., 1., 0.])
    """
    checked_callable(surrogate, "gradient_of")

    def declare(function: Callable[P, R]) -> SurrogateGradient[P, R]:
        checked_callable(function, "gradient_of")
        return SurrogateGradient(function, Surrogate(Forward(function), surrogate))

    return declare


def straight_through(function: Callable[P, R], /) -> SurrogateGradient[P, R]:
    """A function of the same values whose gradient passes straight through to its first argument.

    `straight_through(f)` is `gradient_of(identity)(f)`: the straight-through estimator of Bengio, Léonard and
    Courville, "Estimating or propagating gradients through stochastic neurons" (2013). The output must have the shape
    and dtype of the first argument. Unlike `x + (f(x) - x).detach()`, the value is exactly that of `f`.

    Args:
        function: any callable whose first argument is a tensor (or a pytree of tensors). Other arguments get no
            gradient.

    Raises:
        GradientError: the output is not built like the first argument.

    Example:
        >>> import torch, gradsmith as gs
        >>> round_ste = gs.straight_through(torch.round)
        >>> x = torch.tensor([0.4, 1.6], requires_grad=True)
        >>> round_ste(x)
        tensor([0., 2.], grad_fn=<roundBackward>)
        >>> (3 * round_ste(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
    """
    checked_callable(function, "straight_through")
    return gradient_of(first_argument)(function)
