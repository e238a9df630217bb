"""The pytest plugin: the fixture, the marker, and a package as items, run by pytest itself."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.reach.hostile import write_package

pytest_plugins = ["pytester"]

SUBJECTS = """
import torch
from torch.autograd import Function

class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, grad):
        return {factor} * grad
"""


@pytest.fixture
def inside(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*arguments):
        return pytester.runpytest_subprocess("-p", "gradsmith.pytest_plugin", "-p", "no:cacheprovider", *arguments)

    return run


def test_the_fixture_passes_and_fails(pytester, inside):
    pytester.makepyfile(
        right=SUBJECTS.format(factor=2),
        wrong=SUBJECTS.format(factor=3),
        test_them="""
import pytest, torch, right, wrong

def test_right(check_gradient):
    report = check_gradient(right.Double, torch.ones(3, requires_grad=True), fast=True)
    assert report.ok

@pytest.mark.gradsmith(fast=True)
def test_wrong(check_gradient):
    check_gradient(wrong.Double, torch.ones(3, requires_grad=True))

@pytest.mark.gradsmith(fast=True, waive=("derivative",))
def test_waived_by_the_marker(check_gradient):
    assert "left out by fast" in str(check_gradient(wrong.Double, torch.ones(3, requires_grad=True)))
""",
    )
    result = inside("--strict-markers")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*GS101*", "*1.5 times the derivative*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_one_item_for_each_function(pytester, inside):
    write_package(pytester.path, "Right", "Writes", "AlsoRight")
    pytester.makepyfile(test_other="def test_other(): pass")
    result = inside("--gradsmith", "hostile", "--gradsmith-fast", "--junitxml", "out.xml", "-rA")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*GS207*"])
    cases = ElementTree.parse(pytester.path / "out.xml").getroot().iter("testcase")
    assert {c.get("name") for c in cases} == {f"hostile.functions:{n}" for n in ("Right", "Writes", "AlsoRight")}


def test_k_and_markers_choose(pytester, inside):
    write_package(pytester.path, "Right", "Writes", "AlsoRight")
    inside("--gradsmith", "hostile", "--gradsmith-fast", "-k", "Writes").assert_outcomes(failed=1, deselected=2)
    result = inside("--gradsmith", "hostile", "-m", "not gradsmith")
    result.assert_outcomes(deselected=3)


def test_beside_ordinary_tests(pytester, inside):
    write_package(pytester.path, "Right")
    pytester.makepyfile(test_other="def test_other(): pass")
    inside("--gradsmith", "hostile", "--gradsmith-fast", "test_other.py").assert_outcomes(passed=2)


def test_several_at_once(pytester, inside):
    write_package(pytester.path, "Right", "Segfault", "AlsoRight")
    result = inside("-p", "xdist.plugin", "-n", "2", "--gradsmith", "hostile", "--gradsmith-fast")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*SIGSEGV*"])


def test_no_such_package(inside):
    result = inside("--gradsmith", "nosuchpackage_")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gradsmith: *nosuchpackage_*"])


def test_without_the_option_it_does_nothing(pytester, inside):
    pytester.makepyfile(test_other="import sys\ndef test_other(): assert 'torch' not in sys.modules")
    inside().assert_outcomes(passed=1)
