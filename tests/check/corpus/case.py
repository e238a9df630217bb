"""A case of the corpus: a function as an author would write it, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One function with the inputs a normal author passes, and the truth about it.

    Args:
        name: A short name, unique in the corpus.
        subject: What `gradsmith.check` is given: a Function class, a callable, a Module, a custom_op.
        inputs: Makes fresh inputs: a tuple of plain contiguous float32 or float64 tensors, those to differentiate
            with requires_grad, and other arguments.
        family: For a faulty case the first three characters of the rule that should find it, "GS1" to "GS9"; several
            joined by "|" where more than one is right. Empty for a correct case.
        fault: What is wrong, in one sentence; empty for a correct case.
        options: Further arguments of `check`: kwargs, gradient_of, waive, reference.
    """

    name: str
    subject: Any
    inputs: Callable[[], tuple[Any, ...]]
    family: str = ""
    fault: str = ""
    options: dict[str, Any] = field(default_factory=dict)
