"""A Function from the text of its bodies, and what the source rules say of it."""

from __future__ import annotations

import textwrap
from typing import Any

from gradsmith.check._example import run_example
from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, dump, load
from gradsmith.check.rules.source import RULES
from gradsmith.check.source._source import source_observation


def judge(subject: Any, *more: Observation) -> list[Finding]:
    """What the rules say, from observations that went through bytes."""
    observations = load(dump([source_observation(subject), *more]))
    return [finding for rule in RULES for finding in rule(observations)]


def function(backward: str, forward: str = "", more: str = "", params: str = "x", grads: str = "g") -> Any:
    """A Function from the text of its two bodies."""
    forward = forward or "ctx.save_for_backward(x)\nreturn x.exp()"
    text = (
        "import torch\nimport torch.nn.functional as F\nimport numpy as np\n"
        "from torch.autograd.function import once_differentiable\nTABLE = {}\nSTACK = []\n"
        f"{more}\n"
        "class Subject(torch.autograd.Function):\n"
        f"    @staticmethod\n    def forward(ctx, {params}):\n{textwrap.indent(forward, ' ' * 8)}\n"
        f"    @staticmethod\n    def backward(ctx, {grads}):\n{textwrap.indent(backward, ' ' * 8)}\n"
    )
    return run_example(text, "test source")["Subject"]


def codes(*args: Any, **kwargs: Any) -> list[str]:
    return sorted({f.rule for f in judge(function(*args, **kwargs))})
