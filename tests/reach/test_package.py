"""A package checked as its user does: what is found of each function, on which inputs, and what is written of it."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("package")  # what they share is made once

FUNCTIONS = '''
import torch
from torch.autograd import Function


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


class OneIsWrong(Product):
    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, 2 * grad * x


class OnlyIfTheFirst(Product):
    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            return grad * y, grad * x
        return None, None


class Scattered(Function):
    """Takes what only its author knows: places that fit a size."""

    @staticmethod
    def forward(ctx, x, places, size):
        if places.dtype != torch.int64 or places.shape != x.shape or size != 17 or int(places.max()) < 14:
            raise ValueError("no")
        ctx.save_for_backward(places)
        return x.new_zeros(size).index_add(0, places, x)

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad[places], None, None


class Penalty(Function):
    """The gradient is right, and its derivative is lost: an intermediate was saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3 * x**2)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return grad * slope


def reverse(x, strength=0.5):
    return Reverse.apply(x, strength)


def make(power):
    class Power(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**power

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad.mul_(power) * x ** (power - 1)

    return Power.apply


@torch.library.custom_op("reachtest::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return 3 * x


triple.register_fake(torch.empty_like)
triple.register_autograd(lambda ctx, grad: 3 * grad)
'''

CASES = """
import torch, gradsmith as gs


@gs.cases("subject.functions:Scattered")
def _():
    return torch.randn(3, requires_grad=True), torch.tensor([2, 16, 2]), 17
"""

DRIVE = """
import torch
from subject.functions import make
make(3)(torch.rand(4, requires_grad=True)).sum().backward()
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradsmith", *arguments], cwd=folder, capture_output=True, text=True, timeout=240
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    (folder / "subject").mkdir()
    (folder / "subject" / "__init__.py").write_text("")
    (folder / "subject" / "functions.py").write_text(FUNCTIONS)
    (folder / "subject" / "gpu.py").write_text(
        "import no_such_gpu\nfrom torch.autograd import Function\n\nclass Kernel(Function):\n"
        "    @staticmethod\n    def backward(ctx, grad): return grad\n"
    )
    (folder / "gradsmith_cases.py").write_text(CASES)
    (folder / "drive.py").write_text(DRIVE)
    done = command(folder, "record", "--", sys.executable, "drive.py")
    assert "recorded 1 function" in done.stderr
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> dict:
    written = ["--html", "out.html", "--junit", "out.xml", "--sarif", "out.sarif"]
    done = command(folder, "check", "subject", "--fast", "--json", *written)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def function(report: dict, name: str) -> dict:
    return next(f for f in report["functions"] if f["name"] == name)


EXPECTED = {
    "Reverse": ("right", "call site", "multiple of the derivative", set()),
    "Round": ("right", "search", "straight-through", set()),
    "Product": ("right", "search", "derivative", set()),
    "OneIsWrong": ("wrong", "search", "projection or convention", {"GS101"}),
    "OnlyIfTheFirst": ("wrong", "search", "derivative", {"GS304"}),
    "Scattered": ("right", "case", "derivative", set()),
    "Penalty": ("wrong", "search", "derivative", {"GS503"}),
    "make.<locals>.Power": ("wrong", "recorded", "derivative", {"GS207"}),
    "reachtest::triple": ("right", "search", "derivative", set()),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(report, name):
    told = function(report, name)
    rules = {f["rule"] for f in told["findings"]}
    verdict, source, intent, faults = EXPECTED[name]
    assert (told["verdict"], told["source"], told["intent"]) == (verdict, source, intent), told["why"]
    assert rules >= faults
    assert bool(rules) == bool(faults), rules


def test_what_cannot_be_exercised_is_told_with_the_reason(report):
    assert function(report, "Kernel")["verdict"] == "not exercised"
    assert "no_such_gpu" in function(report, "Kernel")["why"]
    assert {f["name"] for f in report["functions"]} == {*EXPECTED, "Kernel"}


def test_findings_on_guessed_inputs_show_them_and_how_to_pin_them(report, folder, tmp_path):
    told = function(report, "OneIsWrong")
    assert told["guessed"]
    assert told["call"] == "OneIsWrong.apply(randn(3, 4), randn(3, 4))"
    (tmp_path / "gradsmith_cases.py").write_text(f"import torch, gradsmith as gs\n\n{told['pin']}\n")
    done = command(
        tmp_path,
        "check",
        f"{folder}/subject/functions.py::OneIsWrong",
        "--cases",
        "gradsmith_cases.py",
        "--json",
        "--fast",
    )
    pinned = function(json.loads(done.stdout), "OneIsWrong")
    assert pinned["source"] == "case"
    assert {f["rule"] for f in pinned["findings"]} >= {"GS101"}


def test_the_declaration_that_is_offered_declares(report, folder, tmp_path):
    offered = function(report, "Reverse")["declaration"]
    assert "gradient_of=lambda x, strength: -strength * x" in offered
    (tmp_path / "more.py").write_text(f"import torch, gradsmith as gs\n\n{offered}\n")
    done = command(
        folder, "check", "subject", "--cases", str(tmp_path / "more.py"), "--json", "--fast", "--exclude", "*O*"
    )
    assert function(json.loads(done.stdout), "Reverse")["intent"] == "declared"
    assert function(json.loads(done.stdout), "Reverse")["verdict"] == "right"


def test_the_other_formats_say_the_same(report, folder):
    cases = {c.get("name"): c for c in ElementTree.parse(folder / "out.xml").getroot().iter("testcase")}
    assert {n for n, c in cases.items() if c.find("failure") is not None} == {n for n, e in EXPECTED.items() if e[3]}
    run = json.loads((folder / "out.sarif").read_text())["runs"][0]
    faults = [r for r in run["results"] if r["level"] == "error"]
    lines = FUNCTIONS.splitlines()
    starts = [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in faults if r["ruleId"] == "GS503"]
    assert any("class Penalty" in lines[start - 1] for start in starts)
    assert "OneIsWrong" in (folder / "out.html").read_text()


def test_a_baseline_sets_aside_what_is_known(folder):
    arguments = ["check", "subject", "--fast", "--baseline", "known.json", "--exclude", "*:Scattered"]
    assert command(folder, *arguments, "--update-baseline").returncode == 0
    assert command(folder, *arguments).returncode == 0
    source = folder / "subject" / "functions.py"
    source.write_text(FUNCTIONS.replace("return grad * y, grad * x\n", "return grad * y, -grad * x\n", 1))
    try:
        done = command(folder, *arguments, "--json")
    finally:
        source.write_text(FUNCTIONS)
    assert done.returncode == 1
    assert [
        f["name"]
        for f in json.loads(done.stdout)["functions"]
        if f["verdict"] == "wrong" and not all(x["suppressed"] for x in f["findings"])
    ] == ["Product"]


def test_help_answers_without_torch():
    code = (
        "import sys\nfrom gradsmith.cli import main\n"
        "try: main(['check', '--help'])\nfinally: assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0
