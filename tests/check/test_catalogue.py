"""The library proves itself: nothing is found on any function of `gradsmith.ops`, nor on the two seeds."""

from __future__ import annotations

import pytest
import torch

import gradsmith as gs
from gradsmith import ops
from gradsmith.learn.seeds import GradientScale, SplitAndScale

SAMPLES = {
    "scale_gradient": [(0.5,), (-1.0,), (0.0,)],
    "reverse_gradient": [(), (2.0,)],
    "split_and_scale": [(), (1.5, -0.5)],
}


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(3)).requires_grad_()


def test_every_operation_has_a_sample():
    assert set(SAMPLES) == set(ops.__all__)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("name", "options"), [(n, o) for n, all_ in SAMPLES.items() for o in all_])
def test_nothing_is_found_on_the_catalogue(name: str, options: tuple[float, ...], dtype: torch.dtype):
    report = gs.check(getattr(ops, name), (normal(3, 4, dtype=dtype), *options))
    assert report.findings == (), str(report)
    wrong = [row for row in report.matrix if row.status == "wrong"]
    assert wrong == []


def test_the_catalogue_is_right_everywhere():
    report = gs.check(gs.reverse_gradient, normal(3, 4))
    not_right = {row.transform for row in report.matrix if row.status != "right"}
    assert not_right <= {"func.hessian"}  # its second derivative is zero


@pytest.mark.parametrize(
    ("seed", "options", "intent"),
    [
        (SplitAndScale, (), None),
        (GradientScale, (0.5,), lambda x, scale: x * scale),
        (GradientScale, (-1.0,), lambda x, scale: x * scale),
    ],
)
def test_nothing_is_found_on_the_seeds(seed, options, intent):
    x = torch.tensor([-3.0, -1.0, 0.0, 2.0, 4.0], requires_grad=True)
    report = gs.check(seed, (x, *options), gradient_of=intent)
    assert report.findings == (), str(report)


def test_a_reversal_that_is_not_declared_is_told_apart():
    report = gs.check(GradientScale, (normal(3, 4), -1.0), fast=True)
    assert [f.rule for f in report.findings] == ["GS101"]
    assert report.findings[0].message.startswith("Backward is -1 times the derivative of the forward")
    assert "gradient_of=" in report.findings[0].message
