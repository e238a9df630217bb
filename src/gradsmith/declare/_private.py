"""Every private PyTorch name gradsmith touches. `tests/declare/test_private.py` says when one of them moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch._C import _are_functorch_transforms_active as functorch_is_active
from torch._C import _functorch, _is_any_autocast_enabled
from torch._subclasses.fake_tensor import fake_tensor_tls
from torch.autograd import Function, forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.library import CustomOpDef as CustomOpDef  # type: ignore[attr-defined]

__all__ = [
    "OPERATORS",
    "CustomOpDef",
    "OperatorFacts",
    "any_autocast_enabled",
    "applied_as",
    "being_traced",
    "constant_while_tracing",
    "custom_operators",
    "direct_apply",
    "forward_ad",
    "forward_mode_active",
    "forward_mode_kept",
    "function_class_of",
    "functorch_is_active",
    "has_tangent",
    "is_compiling",
    "is_legacy_batched",
    "is_transformed",
    "is_view",
    "not_compiled",
    "one_node_while_tracing",
    "operator_definition",
    "operator_facts",
    "operators_with_gradient",
    "primal",
    "real_constants_allowed",
    "recording",
    "requires_grad_at_any_level",
    "tangents_recorded",
    "transforms_active",
    "unseen_by_modes",
    "version_of",
    "vjp",
    "vmap_fallback_unmentioned",
    "without_python_apply",
    "wrapped_for_forward_mode",
]

# torch annotates these with unions or not at all.
vjp: Callable[..., tuple[Any, Callable[..., tuple[torch.Tensor, ...]]]] = torch.func.vjp  # type: ignore[assignment]
any_autocast_enabled: Callable[[], bool] = _is_any_autocast_enabled

Function_ = TypeVar("Function_", bound=Callable[..., Any])
constant_while_tracing: Callable[[Function_], Function_] = torch._dynamo.assume_constant_result
one_node_while_tracing: Callable[[Function_], Function_] = torch.compiler.allow_in_graph
# Dynamo tries its hand at every Python frame once a graph broke; it does not understand modes and transforms.
not_compiled: Callable[[Function_], Function_] = torch.compiler.disable
is_compiling = torch.compiler.is_dynamo_compiling
is_view: Callable[[torch.Tensor], bool] = torch.Tensor._is_view
unseen_by_modes: Callable[[], AbstractContextManager[Any]] = torch._C.DisableTorchFunction
tangents_recorded: Callable[[bool], AbstractContextManager[Any]] = forward_ad._set_fwd_grad_enabled


def transforms_active() -> bool:
    """Whether a torch.func transform or a forward-mode level is running (in eager mode)."""
    return functorch_is_active() or forward_mode_active()


def forward_mode_active() -> bool:
    """Whether a forward-mode level is entered."""
    return forward_ad._current_level >= 0


def recording() -> bool:
    """Whether what runs now is recorded for a derivative, backward or forward."""
    return torch.is_grad_enabled() or (forward_mode_active() and torch._C._is_fwd_grad_enabled())


def primal(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its tangent of the running level."""
    unpacked: torch.Tensor = forward_ad.unpack_dual(tensor, level=0).primal
    return unpacked


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a tangent, outside torch.func."""
    if not forward_mode_active():
        return False
    with tangents_recorded(True):  # the forward of an autograd.Function hides them
        return forward_ad.unpack_dual(tensor).tangent is not None


def version_of(value: Any) -> int | None:
    """How often a tensor was written to; None where nobody counts."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None


def being_traced() -> bool:
    """Whether make_fx, torch.export or torch.jit.trace is recording what runs."""
    return get_proxy_mode() is not None or torch._C._get_tracing_state() is not None


def direct_apply(function: type[Function]) -> Callable[..., Any]:
    """`function.apply` without its Python half, which only serves torch.func; a third of the cost of a call."""
    apply: Callable[..., Any] = super(Function, function).apply  # type: ignore[misc]
    return apply


def without_python_apply(function: type[Function]) -> Callable[..., Any]:
    """`function.apply`, taking the direct way whenever no torch.func transform is running."""
    direct: Callable[..., Any] = direct_apply(function)
    full: Callable[..., Any] = function.apply

    def apply(*args: Any) -> Any:
        return full(*args) if functorch_is_active() else direct(*args)

    return apply


@contextmanager
def real_constants_allowed() -> Iterator[None]:
    """Let a function traced by torch.compile read tensors it captured: they become constants of the graph."""
    before = fake_tensor_tls.allow_non_fake_inputs_override
    fake_tensor_tls.allow_non_fake_inputs_override = True
    try:
        yield
    finally:
        fake_tensor_tls.allow_non_fake_inputs_override = before


def is_transformed(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a torch.func transform that is still running."""
    tensor = _functorch.unwrap_if_dead(tensor)
    return _functorch.is_functorch_wrapped_tensor(tensor)


def is_legacy_batched(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a batch of `is_grads_batched`, which runs torch's first vmap."""
    batched: bool = _functorch.is_legacy_batchedtensor(tensor)
    return batched


def requires_grad_at_any_level(tensor: torch.Tensor) -> bool:
    """Whether a tensor, or one it wraps for a torch.func transform, requires grad."""
    return any(layer.requires_grad for layer in _layers(tensor))


def wrapped_for_forward_mode(tensor: torch.Tensor) -> bool:
    """Whether a forward mode is running under torch.func that may differentiate with respect to this tensor."""
    return forward_mode_active() and any(_functorch.is_gradtrackingtensor(t) for t in _layers(tensor))


def _layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor and those it wraps; a transform that has ended records nothing any more."""
    tensor = _functorch.unwrap_if_dead(tensor)
    yield tensor
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.unwrap_if_dead(_functorch.get_unwrapped(tensor))
        yield tensor


@contextmanager
def forward_mode_kept() -> Iterator[None]:
    """Leave forward mode as it was: the level that is entered, and whether tangents are recorded."""
    level, recorded = forward_ad._current_level, torch._C._is_fwd_grad_enabled()
    try:
        yield
    finally:
        while forward_ad._current_level > level:
            forward_ad.exit_dual_level(level=forward_ad._current_level)
        torch._C._set_fwd_grad_enabled(recorded)


@contextmanager
def vmap_fallback_unmentioned() -> Iterator[None]:
    """Keep torch from writing to the terminal that a batch is computed in a loop."""
    _functorch._set_vmap_fallback_warning_enabled(False)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        _functorch._set_vmap_fallback_warning_enabled(True)  # type: ignore[attr-defined]


def function_class_of(node: Any) -> type[Function] | None:
    """The Function class whose backward a graph node runs; None for nodes that are not written in Python."""
    found: type[Function] | None = getattr(node, "_forward_cls", None)
    return found


# --- operators of torch.library --------------------------------------------------------------------

OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


@contextmanager
def applied_as(apply: Callable[..., Any]) -> Iterator[None]:
    """Within it every call of an autograd.Function is `apply(cls, *args, **kwargs)`.

    `Function.apply` is where most calls go; one that was bound before, `f = X.apply`, ends in `super().apply(...)`.
    """
    before = Function.__dict__["apply"]
    Function.apply = classmethod(apply)  # type: ignore[assignment,method-assign]
    _SingleLevelFunction.apply = classmethod(apply)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        Function.apply = before  # type: ignore[method-assign]
        del _SingleLevelFunction.apply  # type: ignore[attr-defined]


def operator_definition(operator: Any) -> Any:
    """The `custom_op` definition behind an operator taken from `torch.ops`, or the operator itself."""
    from torch._library.custom_ops import OPDEFS

    return OPDEFS.get(str(operator).removesuffix(".default").replace(".", "::"), operator)


def custom_operators() -> list[tuple[str, Any, Any]]:
    """Every `custom_op` there is: its name, its definition and the function it was made of."""
    from torch._library.custom_ops import OPDEFS

    return [(name, definition, definition._init_fn) for name, definition in OPDEFS.items()]


def operators_with_gradient() -> list[str]:
    """The names of all operators that have a gradient registered."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if not name.startswith(("aten::", "prim"))]
    found = [name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd")]
    return [name.partition(".")[0] for name in found]


@dataclass(frozen=True)
class OperatorFacts:
    """What a `custom_op` is made of: its name, its Python functions by role, what its schema says of its arguments."""

    name: str
    parts: dict[str, Callable[..., Any]]
    mutates: list[str]
    tensors: list[str]


def operator_facts(definition: CustomOpDef) -> OperatorFacts:
    arguments = definition._opoverload._schema.arguments
    attributes = {
        "forward": "_init_fn",
        "backward": "_backward_fn",
        "setup_context": "_setup_context_fn",
        "vmap": "_vmap_fn",
    }
    parts = {role: getattr(definition, attribute, None) for role, attribute in attributes.items()}
    return OperatorFacts(
        definition._qualname,
        {role: part for role, part in parts.items() if part is not None},
        [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write],
        [a.name for a in arguments if "Tensor" in str(a.type)],
    )
