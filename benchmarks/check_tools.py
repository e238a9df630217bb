"""What each tool says of one case of the corpus: `gradsmith.check`, and the three that come with PyTorch."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.gradcheck import GradcheckError
from torch.utils._pytree import tree_map

from tests.check.corpus import Case

__all__ = ["CANNOT", "ELSEWHERE", "FAILED", "FOUND", "NOTHING", "TOOLS", "Answer", "answer"]

FOUND = "found"
ELSEWHERE = "found elsewhere"  # only under rules of other families
NOTHING = "nothing"
CANNOT = "cannot judge"
FAILED = "failed"  # the tool itself raised, hung or died
Function = torch.autograd.Function
Tensor = torch.Tensor


@dataclass(frozen=True)
class Answer:
    verdict: str
    seconds: float
    message: str = ""


class CannotJudge(Exception):
    """The tool does not accept the case."""


def answer(tool: str, case: Case) -> Answer:
    """One tool on one case; whatever the case does to the state of torch is undone."""
    torch.manual_seed(0)
    start = time.perf_counter()
    try:
        verdict, message = TOOLS[tool](case)
    except CannotJudge as reason:
        verdict, message = CANNOT, str(reason)
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the case or the tool raises is the answer
        verdict, message = FAILED if tool.startswith("gradsmith") else FOUND, _line(error)
    seconds = time.perf_counter() - start
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    return Answer(verdict, seconds, message[:300])


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


# gradsmith --------------------------------------------------------------------------------------------------------


def _check(case: Case, **options: Any) -> tuple[str, str]:
    import gradsmith  # here, so that the peers need nothing of it

    report = gradsmith.check(case.subject, case.inputs(), **case.options, **options)
    codes = sorted({finding.rule for finding in report.findings})
    if not codes:
        return NOTHING, ""
    right = not case.family or any(code.startswith(family) for code in codes for family in case.family.split("|"))
    return FOUND if right else ELSEWHERE, " ".join(codes)


# gradcheck and gradgradcheck --------------------------------------------------------------------------------------

REFUSALS = ("once_differentiable", "is not implemented")


def _gradcheck(case: Case) -> tuple[str, str]:
    torch.autograd.gradcheck(*_in_float64(case))
    return NOTHING, ""


def _gradgradcheck(case: Case) -> tuple[str, str]:
    try:
        torch.autograd.gradgradcheck(*_in_float64(case))
    except (RuntimeError, NotImplementedError) as error:
        refused = not case.family or any(words in str(error) for words in REFUSALS)
        if refused and not isinstance(error, GradcheckError):
            raise CannotJudge(f"no second derivative: {_line(error)}") from None
        raise
    return NOTHING, ""


def _in_float64(case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function and its inputs as gradcheck wants them, after one run of each kind."""
    function, inputs = _function(case, double=True), _doubled(case.inputs())
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        raise CannotJudge("no argument is a tensor that requires grad")
    try:
        outputs = function(*inputs)
    except Exception:  # noqa: BLE001  why does not matter here
        _function(case, double=False)(*case.inputs())  # what this raises, gradcheck would have shown
        raise CannotJudge("it runs, but not in float64") from None
    if not all(isinstance(o, Tensor) for o in (outputs if isinstance(outputs, tuple | list) else [outputs])):
        raise CannotJudge("its output is no tensor or tuple of tensors")
    return function, _doubled(case.inputs())


def _function(case: Case, double: bool) -> Callable[..., Any]:
    subject = case.subject
    if isinstance(subject, type) and issubclass(subject, Function):
        subject = subject.apply
    elif isinstance(subject, torch.nn.Module) and double:
        subject = copy.deepcopy(subject).double()
    kwargs = case.options.get("kwargs") or {}
    return lambda *args: subject(*args, **(_doubled(kwargs) if double else kwargs))


def _doubled(values: Any) -> Any:
    def double(value: Any) -> Any:
        if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
            dtype = torch.complex128 if value.is_complex() else torch.float64
            return value.detach().to(dtype).requires_grad_(value.requires_grad)
        return value

    return tree_map(double, values)


# opcheck ----------------------------------------------------------------------------------------------------------


def _opcheck(case: Case) -> tuple[str, str]:
    subject, inputs = case.subject, case.inputs()
    if isinstance(subject, type) and issubclass(subject, Function):
        try:
            subject = _as_custom_op(subject, inputs)
        except CannotJudge:
            raise
        except Exception as error:  # noqa: BLE001  why does not matter: there is nothing to check
            raise CannotJudge(f"cannot be wrapped as a custom op: {_line(error)}") from None
    elif not isinstance(subject, CustomOpDef):
        raise CannotJudge("neither a custom op nor a Function")
    torch.library.opcheck(subject, inputs, case.options.get("kwargs"))
    return NOTHING, ""


_numbers = itertools.count()


def _as_custom_op(function: type[Function], inputs: Sequence[Any]) -> CustomOpDef:
    """The Function's forward as an operator, with the Function's backward registered for it."""
    detached = tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, inputs)
    outputs = function.apply(*detached)
    kinds = [_kind(o) for o in (outputs if isinstance(outputs, tuple) else [outputs])]
    arguments = ", ".join(f"{_kind(value)} a{i}" for i, value in enumerate(inputs))
    has_setup = function.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context

    def forward(*args: Any) -> Any:
        return function.forward(*args) if has_setup else function.forward(_NoContext(), *args)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        if has_setup:
            function.setup_context(ctx, inputs, output)
        else:
            with torch.no_grad():
                function.forward(ctx, *inputs)  # again, for what it saves

    op = torch.library.custom_op(
        f"check_corpus::op{next(_numbers)}", forward, mutates_args=(), schema=f"({arguments}) -> ({', '.join(kinds)})"
    )
    op.register_fake(forward)
    op.register_autograd(function.backward, setup_context=setup_context)
    op(*detached)
    with FakeTensorMode() as fake:
        op(*tree_map(lambda x: fake.from_tensor(x) if isinstance(x, Tensor) else x, detached))
    return op


class _NoContext:
    """Stands for ctx where a forward in ctx style runs as the kernel of an operator."""

    def save_for_backward(self, *tensors: Any) -> None: ...

    save_for_forward = mark_non_differentiable = set_materialize_grads = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        raise CannotJudge("it writes into its input")


SCHEMA_KINDS = [(Tensor, "Tensor"), (bool, "bool"), (int, "SymInt"), (float, "float"), (str, "str")]


def _kind(value: Any) -> str:
    """The word of a schema for such a value."""
    if value is None:
        return "Tensor?"
    if isinstance(value, tuple | list) and value:
        return f"{_kind(value[0])}[]"
    for kind, word in SCHEMA_KINDS:
        if isinstance(value, kind):
            return word
    raise CannotJudge(f"no schema has a {type(value).__name__}")


TOOLS: dict[str, Callable[[Case], tuple[str, str]]] = {
    "gradsmith": _check,
    "gradsmith, fast": lambda case: _check(case, fast=True),
    "gradcheck": _gradcheck,
    "gradgradcheck": _gradgradcheck,
    "opcheck": _opcheck,
}
