"""Reading source, and the examples of the rules that judge it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradsmith.check._example import run_example
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.rules.source import RULES
from gradsmith.check.source._source import read_source
from tests.check.source_text import judge

# reading ----------------------------------------------------------------------------------------------------------


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return 2 * g


class Inherits(Doubled):
    @staticmethod
    def forward(ctx, x):
        return x + x


def wrapper(x):
    return Doubled.apply(x)


class Layer(torch.nn.Module):
    def forward(self, x):
        return wrapper(x)


def test_reads_a_function_class():
    found = read_source(Doubled)
    assert (found["kind"], found["name"]) == ("Function", "Doubled")
    assert found["file"] == "tests/check/test_source.py" or found["file"].endswith("test_source.py")
    forward, backward = found["units"]
    assert (forward["role"], forward["params"], forward["owner"]) == ("forward", ["ctx", "x"], "Doubled")
    assert forward["text"].startswith("@staticmethod\ndef forward(ctx, x):")
    assert "once_differentiable" in backward["text"]
    assert backward["wrapped"]
    assert backward["line"] == forward["line"] + 4


def test_reads_inherited_methods_once():
    units = read_source(Inherits)["units"]
    assert [(u["name"], "x + x" in u["text"]) for u in units] == [("forward", True), ("backward", False)]


@pytest.mark.parametrize(
    ("subject", "kind", "roles"),
    [
        (wrapper, "function", ["function", "forward", "backward"]),
        (Doubled.apply, "Function", ["forward", "backward"]),
        (Layer(), "Module", ["forward", "function", "forward", "backward"]),
        (Layer, "Module", ["forward", "function", "forward", "backward"]),
        (torch.nn.Sequential(Layer()), "Module", ["forward", "function", "forward", "backward"]),
    ],
)
def test_follows_a_wrapper_to_its_function(subject, kind, roles):
    found = read_source(subject)
    assert found["kind"] == kind
    assert [u["role"] for u in found["units"]] == roles


def test_reads_a_custom_operator():
    text = """
import torch

@torch.library.custom_op("gradsmith_test::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return 3 * x

def setup_context(ctx, inputs, output):
    pass

def backward(ctx, g):
    g.mul_(3)
    return g

thrice.register_autograd(backward, setup_context=setup_context)
subject = thrice
"""
    subject = run_example(text, "operator")["subject"]
    found = read_source(subject)
    assert (found["kind"], found["name"]) == ("custom_op", "gradsmith_test::thrice")
    assert [u["role"] for u in found["units"]] == ["forward", "backward", "setup_context"]
    assert found["owners"]["gradsmith_test::thrice"] == {"mutates": [], "tensors": ["x"]}
    assert [f.rule for f in judge(subject)] == ["GS901"]
    assert read_source(torch.ops.gradsmith_test.thrice)["kind"] == "custom_op"


def test_an_operator_that_changes_what_it_does_not_name():
    text = """
import torch

@torch.library.custom_op("gradsmith_test::scaled", mutates_args=("y",))
def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(2)
    x.mul_(2)
    return x + y
"""
    (found,) = judge(run_example(text, "changes")["scaled"])
    assert (found.rule, found.where) == ("GS903", "<example changes>:7")


@pytest.mark.parametrize("subject", [torch.exp, torch.nn.functional.relu_, abs, torch.nn.Linear(2, 2), 3])
def test_no_source_of_the_authors(subject):
    found = read_source(subject)
    assert found is None or found["kind"] == "function"
    assert judge(subject) == []


def test_no_source_of_executed_text():
    space: dict[str, Any] = {}
    exec("def f(x):\n    return x", space)
    assert read_source(space["f"]) is None


def test_an_example_knows_its_source():
    space = run_example("def f(x):\n    return x", "known")
    assert read_source(space["f"])["units"][0]["text"] == "def f(x):\n    return x"


# the examples of the rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_bad_example_is_found_with_its_line(rule):
    subject = run_example(rule.bad, f"{rule.code} bad")["subject"]
    found = [f for f in judge(subject) if f.rule == rule.code]
    assert found
    for finding in found:
        file, _, line = finding.where.rpartition(":")
        assert file == f"<example {rule.code} bad>"
        assert finding.evidence[0] == f"{finding.where}: {rule.bad.splitlines()[int(line) - 1].strip()}"
        assert finding.hint == rule.mend


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_good_example_is_right(rule):
    space = run_example(rule.good, f"{rule.code} good")
    assert judge(space["subject"]) == []
    inputs = [x.detach().double().requires_grad_() for x in space["inputs"]]
    assert torch.autograd.gradcheck(space["subject"], inputs)
    assert torch.autograd.gradgradcheck(space["subject"], inputs)


def test_rules_are_complete_and_quiet_on_nothing():
    assert len({r.code for r in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.code.startswith("GS9")
        assert all((rule.summary, rule.why, rule.mend))
        assert list(rule(Observations())) == []
        assert list(rule(Observations([Observation("source")]))) == []
