"""The corpus: every faulty function is found under the right family, nothing is found on a correct one.

`make test` takes the quick form of all correct and half of the faulty ones; `make test-all` and
`benchmarks/check_corpus.py` take the default form of all.
"""

from __future__ import annotations

import pytest

import gradsmith as gs
from tests.check.corpus import CORRECT, FAULTY
from tests.check.corpus.case import Case


def check(case: Case, fast: bool) -> gs.Report:
    return gs.check(case.subject, case.inputs(), fast=fast, **case.options)


def found(case: Case, report: gs.Report) -> bool:
    return any(f.rule.startswith(family) for f in report.findings for family in case.family.split("|"))


def by_name(cases: list[Case]) -> list[pytest.param]:
    return [pytest.param(c, id=c.name) for c in cases]


def test_the_corpus_is_large_and_covers_every_family():
    assert len(FAULTY) >= 60
    assert len(CORRECT) >= 50
    assert {f for c in FAULTY for f in c.family.split("|")} == {f"GS{n}" for n in range(1, 10)}
    names = [c.name for c in [*FAULTY, *CORRECT]]
    assert len(names) == len(set(names))


# What shows only under torch.compile or in a late neighbour needs the default form.
NEEDS_DEFAULT = {c.name for c in FAULTY if c.family == "GS6"}


@pytest.mark.parametrize("case", by_name(FAULTY[::2]))
def test_a_faulty_function_is_found(case: Case):
    report = check(case, fast=case.name not in NEEDS_DEFAULT)
    assert found(case, report), f"{case.fault}; found only {[(f.rule, f.message) for f in report.findings]}"


@pytest.mark.parametrize("case", by_name(CORRECT))
def test_nothing_is_found_on_a_correct_function(case: Case):
    report = check(case, fast=True)
    assert report.findings == (), str(report)
    assert not [s for s in report.skipped if "could not be tried" in s["why"]]


@pytest.mark.slow
@pytest.mark.parametrize("case", by_name(FAULTY))
def test_a_faulty_function_is_found_by_default(case: Case):
    report = check(case, fast=False)
    assert found(case, report), f"{case.fault}; found only {[(f.rule, f.message) for f in report.findings]}"


@pytest.mark.slow
@pytest.mark.parametrize("case", by_name(CORRECT))
def test_nothing_is_found_on_a_correct_function_by_default(case: Case):
    report = check(case, fast=False)
    assert report.findings == (), str(report)
