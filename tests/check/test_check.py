"""`check` as its users call it: what the report says, what is waived, what is declared, and that it repeats itself."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch.autograd import Function

import gradsmith as gs
from gradsmith.check import dump, load, observe


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


class Halved(Function):
    """The gradient of silu, times one half."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return 0.5 * grad * s * (1 + x * (1 - s))


class Clip(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.1, 0.1)


class MeanBias(Function):
    """The bias gets the mean over the batch where the sum is right."""

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.mean(0)


def codes(report: gs.Report) -> list[str]:
    return [f.rule for f in report.findings]


def test_the_factor_the_element_and_the_mend_are_named():
    report = gs.check(Halved, normal(3, 4))
    assert codes(report) == ["GS101"]
    finding = report.findings[0]
    assert finding.message.startswith("Backward is 0.5 times the derivative of the forward")
    assert "0.5 (1/2) times" in finding.diagnosis
    assert ", ratio 0.5 (12 of 12 elements differ)" in finding.evidence[0]
    x = normal(3, 4).detach().double()
    generator_free = torch.func.grad(lambda x: (x * torch.sigmoid(x)).sum())(x)
    assert torch.isfinite(generator_free).all()
    assert not report.ok
    with pytest.raises(gs.CheckError, match="GS101"):
        report.raise_if_failed()


def test_the_numbers_of_the_evidence_are_those_of_autograd():
    observations = observe(Halved, normal(3, 4), fast=True)
    comparison = observations.first("value")["comparisons"][0]
    ratios = [g / e for g, e in zip(comparison["got"], comparison["expected"], strict=True)]
    assert ratios == pytest.approx([0.5] * 12)
    x = normal(3, 4).detach().double().requires_grad_()
    slope = torch.autograd.grad((x * torch.sigmoid(x)).sum(), x)[0].reshape(-1)
    incoming = [e / s for e, s in zip(comparison["expected"], slope.tolist(), strict=True)]
    assert len({round(g, 6) for g in incoming}) == 12  # a random incoming gradient, not ones


def test_a_mean_where_a_sum_is_right_is_recognised():
    report = gs.check(MeanBias, (normal(3, 4), normal(4)), fast=True)
    assert codes(report)[0] == "GS101"
    assert "a mean over 3 elements where a sum is right" in report.findings[0].diagnosis


def test_a_clipped_gradient_is_found_unless_waived():
    assert "GS203" in codes(gs.check(Clip, normal(3, 4), fast=True))
    waived = gs.check(Clip, normal(3, 4), fast=True, waive=("linearity",))
    assert codes(waived) == []
    assert codes(gs.check(Clip, normal(3, 4), fast=True, waive=("GS203",))) == []


def test_a_declared_intent_is_judged_by_value():
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return -ctx.strength * grad, None

    inputs = (normal(3, 4), 0.3)
    assert codes(gs.check(Reverse, inputs, fast=True)) == ["GS101"]
    assert gs.check(Reverse, inputs, fast=True, gradient_of=lambda x, strength: -strength * x).ok
    wrong = gs.check(Reverse, inputs, fast=True, gradient_of=lambda x: -x)
    assert codes(wrong) == ["GS101"]
    assert "0.3" in wrong.findings[0].diagnosis
    Reverse.__gradient_of__ = staticmethod(lambda x, strength: -strength * x)
    assert gs.check(Reverse, inputs, fast=True).ok


def test_a_declared_gradient_carries_its_intent():
    @gs.custom_gradient(gradient_of=lambda x: 2 * x)
    def doubled_backward(x):
        return x.clone()

    @doubled_backward.backward
    def _(grad):
        return 2 * grad

    assert gs.check(doubled_backward, normal(3)).ok
    assert gs.check(gs.straight_through(torch.round), normal(3)).ok


def test_select_and_ignore_take_beginnings():
    assert codes(gs.check(Clip, normal(3, 4), fast=True, select=["GS1"])) == []
    assert codes(gs.check(Clip, normal(3, 4), fast=True, ignore="GS2")) == []


@pytest.mark.parametrize("argument", ["waive", "select", "ignore"])
def test_an_unknown_rule_is_refused(argument: str):
    with pytest.raises(gs.UsageError, match=f"{argument}: got 'GS999', which is no rule"):
        gs.check(Clip, normal(3), **{argument: ["GS999"]})


def test_the_same_question_has_the_same_answer():
    first, second = (gs.check(Halved, normal(3, 4), fast=True).to_dict() for _ in range(2))
    for report in (first, second):
        report.pop("seconds")
    assert first == second
    assert json.dumps(first, allow_nan=False)


def test_observations_survive_bytes():
    seen = observe(Halved, normal(2, 2), fast=True)
    again = load(dump(seen))
    assert len(again) == len(seen)
    for a, b in zip(seen, again, strict=True):
        assert (a.law, a.sample, a.condition) == (b.law, b.sample, b.condition)
    assert [math.isinf(c["error"]) for o in again for c in o.comparisons] == [
        math.isinf(c["error"]) for o in seen for c in o.comparisons
    ]


def test_inputs_and_random_numbers_are_left_alone():
    x = normal(3, 4)
    before, state = x.detach().clone(), torch.get_rng_state()
    gs.check(Halved, x, fast=True)
    assert torch.equal(x.detach(), before)
    assert x.grad is None
    assert torch.equal(torch.get_rng_state(), state)


def test_a_large_input_is_judged_at_full_size_and_the_laws_on_a_part():
    class LastRow(Function):
        """Wrong in the last row only."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.tanh(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            slope = grad * (1 - torch.tanh(x) ** 2)
            return torch.cat([slope[:999], 2 * slope[999:]])

    report = gs.check(LastRow, normal(1000, 100), fast=True)
    assert codes(report) == ["GS101"]
    assert "x[999, " in report.findings[0].evidence[0]
    assert "(100 of 100000 elements differ)" in report.findings[0].evidence[0]


def test_module_parameters_are_inputs():
    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            return _Product.apply(x, self.gain)

    class _Product(Function):
        @staticmethod
        def forward(ctx, x, gain):
            ctx.save_for_backward(x, gain)
            return x * gain

        @staticmethod
        def backward(ctx, grad):
            x, gain = ctx.saved_tensors
            return grad * gain, (grad * x).mean(0)

    report = gs.check(Scale(), normal(2, 3), fast=True)
    assert codes(report) == ["GS101"]
    assert report.findings[0].evidence[0].startswith("gradient of gain[")


def test_check_is_a_module_and_a_function():
    import gradsmith.check as room

    assert room.check is gs.check.check
    assert room(Halved, normal(2), fast=True, select=["GS9"]).ok
