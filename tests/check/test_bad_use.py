"""Bad use of check: one sentence that says what to do, as `UsageError` in Python and exit code 2 of the command."""

import collections
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch._subclasses.fake_tensor import FakeTensorMode

import gradsmith as gs
from gradsmith.cli import main


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Double.apply(x) * self.weight


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError


class Untouchable:
    def __getattr__(self, name: str) -> Any:
        raise OSError(f"no {name}")

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def given() -> torch.Tensor:
    return torch.tensor([0.5, 1.5, -1.0], requires_grad=True)


def refusal(subject: Any = Double, inputs: Any = None, **options: Any) -> str:
    with pytest.raises(gs.UsageError) as caught:
        gs.check(subject, given() if inputs is None else inputs, fast=True, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


# --- subjects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (None, "subject: got None, which cannot be called"),
        ("Double", "subject: got 'Double', which cannot be called"),
        (torch.ones(2), "cannot be called"),
        (torch, "cannot be called"),
        (Unprintable(), "got an object of type Unprintable, which cannot be called"),
        (Untouchable(), "reading its attributes raises OSError: no "),
        (Double(), "got an instance of Double; pass the class itself"),
        (Scale, "got the class Scale; pass a module, such as Scale(...)"),
        (torch.nn.LazyLinear(2), "weight is not initialized yet; call the module once"),
        (lambda x: None, "<lambda> returns no tensor"),
        (lambda x: "text", "returns no tensor"),
        (lambda x: x.argmax(), "has no gradient and does not change with the inputs"),
        (lambda x: torch.ones(3), "has no gradient and does not change with the inputs"),
        (print, "print returns no tensor"),
        (Double.forward, "cannot take them: missing a required argument: 'x'"),
        (lambda x, y: x * y, "cannot take them: missing a required argument: 'y'"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_subjects(subject, words):
    assert words in refusal(subject)


@pytest.mark.parametrize(
    "subject",
    [
        Double.apply,
        lambda x: Double.apply(x),
        functools.partial(lambda a, x: a * Double.apply(x), 2.0),
        Scale(),
        torch.nn.Sequential(),
        torch.sin,
        torch.Tensor.sin,
        torch.ops.aten.sin.default,
        torch.compile(lambda x: Double.apply(x), backend="eager"),
        torch.compile(Scale(), backend="eager"),
    ],
    ids=lambda s: type(s).__name__,
)
def test_whatever_can_be_called_is_a_subject(subject):
    report = gs.check(subject, given(), fast=True)
    assert report.ok, str(report)


# --- inputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((), "got no tensor"),
        ([], "got no tensor"),
        ("3x4", "got '3x4'; expected a tensor or a tuple"),
        (3.0, "got no tensor"),
        ((None, "a"), "got no tensor"),
        (torch.arange(3), "all are integer or bool tensors"),
        (torch.ones(3, dtype=torch.bool), "all are integer or bool tensors"),
        (torch.ones(3), "none requires grad; call requires_grad_()"),
        ((x for x in [given()]), "a generator can be read only once"),
        (({given()},), "a set holds tensors"),
        (torch.ones(3).to_sparse().requires_grad_(), "x is a torch.sparse_coo tensor; only dense"),
        (torch.ones(3, device="meta", requires_grad=True), "x has no data"),
        (torch.ones(3).to(torch.float8_e4m3fn).requires_grad_(), "x is float8_e4m3fn and requires grad"),
        (torch.full((3,), float("nan"), requires_grad=True), "x holds nan"),
        ((given(), given()), "cannot take them: too many positional arguments"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_inputs(inputs, words):
    assert words in refusal(inputs=inputs)


def test_no_inputs_at_all():
    with pytest.raises(gs.UsageError, match="inputs: got None; expected a tensor"):
        gs.check(Double, None)


def test_tensors_without_data():
    with FakeTensorMode():
        fake = torch.ones(3, requires_grad=True)
    assert "x has no data" in refusal(inputs=fake)


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "inputs",
    [
        [given()],
        (Pair(given(), 1),),
        Pair(given(), 1),
        {"a": given()},
        (given() * 2,),
        torch.nn.Parameter(torch.ones(3)),
        torch.ones(0, requires_grad=True),
        torch.tensor(2.0, requires_grad=True),
        torch.arange(6.0, requires_grad=True)[::2],
        torch.ones(1, requires_grad=True).expand(3),
        torch.ones(3, dtype=torch.complex64, requires_grad=True),
        torch.ones(3, dtype=torch.bfloat16, requires_grad=True),
        torch.ones(3, dtype=torch.float64, requires_grad=True),
        torch.full((3,), float("inf"), requires_grad=True),
        torch.zeros(3, requires_grad=True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_inputs_of_every_form(inputs):
    def double(x: Any) -> torch.Tensor:
        return Double.apply(x["a"] if isinstance(x, dict) else x.a if isinstance(x, Pair) else x)

    report = gs.check(double, inputs, fast=True)
    assert report.ok
    assert not [s for s in report.skipped if "could not be tried" in s["why"]]


# --- options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": "GS9999"}, "select: got 'GS9999', which is no rule"),
        ({"select": 3}, "select: got int; expected rule codes"),
        ({"ignore": None}, "ignore: got NoneType; expected rule codes"),
        ({"waive": b"GS101"}, "waive: got bytes; expected rule codes"),
        ({"waive": "linear"}, "did you mean linearity"),
        ({"timeout": 0}, "timeout: got 0"),
        ({"timeout": "3"}, "timeout: got '3'"),
        ({"timeout": float("nan")}, "timeout: got nan"),
        ({"timeout": 1e-9}, "were over before the first call came back"),
        ({"seed": -1}, "seed: got -1; expected a whole number"),
        ({"seed": "a"}, "seed: got 'a'"),
        ({"seed": 2**70}, "seed: got"),
        ({"device": "gpu"}, "device: got 'gpu', which cannot be used here"),
        ({"device": "meta"}, "device: got 'meta', which cannot be used here"),
        ({"device": []}, "device: got []"),
        ({"thorough": True}, "fast and thorough"),
        ({"kwargs": [1]}, "kwargs: got list"),
        ({"kwargs": {1: 2}}, "kwargs: got the key 1"),
        ({"kwargs": {"eps": 1}}, "got an unexpected keyword argument 'eps'"),
        ({"gradient_of": 3}, "gradient_of: got 3"),
        ({"gradient_of": lambda: 1}, "gradient_of: it"),
        ({"gradient_of": torch.nn.ReLU}, "gradient_of: it"),
        ({"reference": "x"}, "reference: got 'x'"),
        ({"reference": lambda x: x @ x.t().bmm(x)}, "reference: it fails on the inputs with RuntimeError"),
        ({"reference": lambda x: None}, "reference: it returns no tensor"),
        ({"progress": 3}, "progress: got 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value), "none"),
)
def test_options(options, words):
    assert words in refusal(**options)


@pytest.mark.parametrize(
    "options", [{"timeout": float("inf")}, {"seed": 2**63 - 1}, {"select": []}, {"select": ("GS1",)}]
)
def test_options_at_their_limits(options):
    assert gs.check(Double, given(), fast=True, **options).ok


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.grad])
def test_not_within_a_transform(transform):
    x = given()

    def inside(a: torch.Tensor) -> torch.Tensor:
        assert "inside of a torch.func transform" in refusal(inputs=x)
        return a.sum()

    transform(inside)(torch.ones(2))


# --- the command --------------------------------------------------------------------------------------

SOURCE = """
import torch

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

def constant(x):
    return torch.ones(3)

number = 3
"""


@pytest.mark.parametrize(
    ("source", "arguments", "words"),
    [
        (SOURCE, ["FILE::Double", "--thorough"], "without --input"),
        (SOURCE, ["FILE::Double", "--input", "3:int64:0..9"], "integer"),
        (SOURCE, ["FILE::Dubble", "--input", "3"], "Double"),
        (SOURCE, ["FILE::constant", "--input", "3"], "does not change with the inputs"),
        (SOURCE, ["FILE::number", "--input", "3"], "cannot be called"),
        (SOURCE, ["FILE::Double", "--input", "3", "--timeout", "0"], "--timeout"),
        (SOURCE, ["FILE::Double", "--input", "3", "--arg", "eps=1"], "eps"),
        (SOURCE, ["FILE::Double", "--input", "3", "--reference", "FILE::number"], "reference"),
        (SOURCE, ["nothing.py::Double", "--input", "3"], "there is no file"),
        ("import nothing_of_this_name", ["FILE::Double", "--input", "3"], "nothing_of_this_name"),
        ("def broken(:", ["FILE::Double", "--input", "3"], "syntax"),
        ("raise SystemExit(0)", ["FILE::Double", "--input", "3"], "it calls sys.exit(0)"),
        ("class E(Exception):\n def __str__(s): 1/0\nraise E", ["FILE::Double", "--input", "3"], "E"),
    ],
)
def test_the_command_ends_with_two(tmp_path: Path, source, arguments, words):
    file = tmp_path / f"subject_{abs(hash(source))}.py"
    file.write_text(source)
    result = CliRunner().invoke(main, ["check", *[a.replace("FILE", str(file)) for a in arguments]])
    assert result.exit_code == 2, result.output
    assert words.lower() in result.stderr.lower()
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
