"""Nothing is found on torch's own differentiable operations wrapped in a Function."""

from __future__ import annotations

import pytest

import gradsmith as gs
from tests.check.corpus.case import Case
from tests.check.torch_ops import CASES

ALL = [pytest.param(c, id=c.name) for c in CASES]


def test_there_are_enough():
    assert len(CASES) >= 80


@pytest.mark.parametrize("case", ALL[::4])
def test_nothing_is_found(case: Case):
    report = gs.check(case.subject, case.inputs(), fast=True, **case.options)
    assert report.findings == (), str(report)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL)
def test_nothing_is_found_by_default(case: Case):
    report = gs.check(case.subject, case.inputs(), **case.options)
    assert report.findings == (), str(report)
