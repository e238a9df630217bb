"""The search: it calls what nobody wrote inputs for, and says what it met where it cannot."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import gradsmith as gs
from gradsmith.reach.inputs.search import SearchResult, SourceIndex, describe, pin, search

Load = Callable[[str], Any]
_HEAD = "import math, dataclasses\nimport torch\nfrom torch.autograd import Function\n"


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SearchResult]]:
    """Write a module that defines X, and search for a call of it."""

    def run(text: str, **options: Any) -> SearchResult:
        file = tmp_path / "searched.py"
        file.write_text(_HEAD + textwrap.dedent(text))
        module = types.ModuleType("searched")
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, "searched", module)
        exec(compile(file.read_text(), str(file), "exec"), vars(module))
        return search(module.X, "X", SourceIndex([str(file)]), **options)

    return run


def function(forward: str, backward: str = "return (g, *[None] * 9)[: ctx.n]", parameters: str = "x") -> str:
    """The source of a Function X."""
    count = len([p for p in parameters.split(",") if p.strip()])
    body = textwrap.indent(textwrap.dedent(forward), " " * 8)
    return (
        f"class X(Function):\n    @staticmethod\n    def forward(ctx, {parameters}):\n        ctx.n = {count}\n{body}\n"
        f"    @staticmethod\n    def backward(ctx, g):\n        {backward}\n"
    )


@pytest.mark.parametrize(
    ("parameters", "forward", "argument"),
    [
        ("x, alpha", "return x * float(alpha)", 0.5),
        ("x, dim", "return x.softmax(dim)", -1),
        ("x, low, high", "assert low < high\nreturn x.clamp(low, high)", -1.0),
        ("x, mode", "if mode not in ('up', 'down'): raise ValueError(f'Unknown mode: {mode}')\nreturn x * 2", "up"),
        ("x, kind", "if kind != 'cg': raise ValueError('kind: Available: cg, bicg')\nreturn x * 2", None),
        ("x, q: int", "return x * range(9)[q]", 2),
        ("x, flag: bool", "assert isinstance(flag, bool)\nreturn x * 2", False),
    ],
    ids=["alpha", "dim", "pair", "word of the source", "word of the error", "int", "bool"],
)
def test_numbers_and_words(found: Any, parameters: str, forward: str, argument: object) -> None:
    result = found(function(forward, parameters=parameters))
    assert result.call is not None, result.why
    if argument is not None:
        assert result.call.args[1] == argument
        assert type(result.call.args[1]) is type(argument)


@pytest.mark.parametrize(
    "forward",
    [
        "if x.dim() != 3: raise ValueError('Input must be 3D')\nreturn x * 2",
        "n, c, h, w = x.shape\nreturn x * 2",
        "if x.dim() != 1: raise ValueError('x must be 1-D')\nreturn x * 2",
        "assert x.shape[-1] == 8, 'last dim must be 8'\nreturn x * 2",
        "return x[:, :, None, :].sum(2)",
        "return torch.linalg.cholesky(x).detach() * 1 + x * 0",
        "return torch.bernoulli(x) * 1",
    ],
    ids=["3D", "unpacked", "1-D", "last dim", "indexed", "definite", "probabilities"],
)
def test_shapes_and_domains_told_by_errors(found: Any, forward: str) -> None:
    result = found(function(forward))
    assert result.call is not None, result.why


def test_index_follows_the_logits(found: Any) -> None:
    text = function(
        "return -x.log_softmax(-1).gather(-1, target[:, None])[:, 0]",
        "return g[:, None].expand(ctx.s), None",
        "x, target",
    )
    result = found(text.replace("ctx.n = 2", "ctx.s = x.shape"))
    x, target = result.call.args
    assert target.dtype is torch.int64
    assert target.shape == x.shape[:-1]
    assert int(target.max()) < x.shape[-1]


def test_call_site_comes_first(found: Any) -> None:
    result = found(function("return x * slope", parameters="x, slope") + "def use(x, s=0.125): return X.apply(x, s)\n")
    assert result.call.args[1] == 0.125
    assert (result.call.source, result.tries) == ("call site", 1)
    assert result.call.where.endswith("searched.py:12")


def test_record_with_a_field_that_is_missed(found: Any) -> None:
    record = "@dataclasses.dataclass\nclass Settings:\n    gain: float = 2.0\n"
    result = found(record + function("return x * p.gain", parameters="x, p"))
    assert dataclasses.asdict(result.call.args[1]) == {"gain": 2.0}
    assert 'importlib.import_module("searched").Settings()' in pin("searched:X", result.call)


def test_module_where_a_tensor_has_no_forward(found: Any) -> None:
    assert isinstance(found(function("return net.forward(x)", parameters="x, net")).call.args[1], torch.nn.Module)


def test_class_of_modules_is_made_of_its_defaults(found: Any) -> None:
    text = "class X(torch.nn.Module):\n    def forward(self, x): return x * 2\n    def backward(self, g): return g\n"
    result = found(text)
    assert type(result.call.subject).__name__ == "X"
    assert found(text.replace("    def forward", "    def __init__(self, n): ...\n    def forward")).why.startswith(
        "X() raises"
    )


def test_second_call_has_other_sizes(found: Any) -> None:
    result = found(
        function("return x @ weight.T", "return g @ ctx.saved_tensors[0], None", "x, weight").replace(
            "ctx.n = 2", "ctx.save_for_backward(weight)"
        )
    )
    first, second = result.call.args, result.second.args
    assert first[0].shape != second[0].shape
    assert second[0].shape[1] == second[1].shape[1]


@pytest.mark.parametrize(
    ("backward", "broken"),
    [
        ("return g * missing_name", True),
        ("return g, g", True),
        ("return g * torch.no_such_thing(g)", True),
        ("return g.reshape(7, 11)", False),
        ("return g * ctx.scale.item", False),
    ],
    ids=["name", "count", "torch", "shape", "own guess"],
)
def test_backward_that_never_runs(found: Any, backward: str, broken: bool) -> None:
    result = found(
        function("ctx.scale = scale\nreturn x * 2", backward, "x, scale=0.5").replace("ctx.n = 2", "pass")
        if "scale" in backward
        else function("return x * 2", backward)
    )
    assert result.call is None
    assert (result.broken is not None) is broken


def test_backward_that_never_runs_beside_tries_without_a_gradient(found: Any) -> None:
    assert found(function("return x * slope", "return g * torch.linear(g), None", "x, slope")).broken is not None


def test_reasons_of_those_that_are_not_reached(found: Any) -> None:
    assert "None for every input" in found(function("return x * 2", "return None"), tries=8).why
    assert found(function("raise RuntimeError('Torch not compiled with CUDA enabled')")).tries == 3
    assert "forward: OSError: no such luck" in found(function("raise OSError('no such luck')"), tries=5).why


def test_limits(found: Any) -> None:
    assert found(function("raise OSError('no')"), tries=7).tries == 7
    assert "did not come back" in found(function("while True: pass"), seconds=0.3).why


def test_search_leaves_no_trace(found: Any, capfd: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found(function("print('noise'); torch.manual_seed(9)\nreturn x * 2"))
    assert torch.equal(torch.rand(2), expected)
    assert capfd.readouterr().out == ""


def test_same_call_each_time(found: Any) -> None:
    text = function("return x * 2")
    assert torch.equal(found(text).call.args[0], found(text).call.args[0])


def test_operator_by_its_schema() -> None:
    @torch.library.custom_op("searchtest::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float, times: int = 2) -> torch.Tensor:
        return x * factor * times

    scaled.register_autograd(
        lambda ctx, g: (g * ctx.factor, None, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1] * inputs[2]),
    )
    result = search(scaled, "searchtest::scaled", SourceIndex([]))
    assert [type(a) for a in result.call.args[1:]] == [float, int]
    assert describe("searchtest::scaled", result.call).startswith("searchtest::scaled(randn(3, 4)")


def test_pinned_call_is_the_call(found: Any) -> None:
    result = found(function("return x * alpha * mask", parameters="x, alpha, mask"))
    lines = pin("searched:X", result.call)
    body = lines.partition("def _():\n")[2]
    made: dict[str, Any] = {}
    exec(f"def made():\n{body}", {"torch": torch, "gs": gs}, made)
    again = made["made"]()
    assert lines.startswith('@gs.cases("searched:X")\ndef _():\n    return ')
    assert [type(a) for a in again] == [type(a) for a in result.call.args]
    assert [(a.shape, a.dtype, a.requires_grad) for a in again if isinstance(a, torch.Tensor)] == [
        (a.shape, a.dtype, a.requires_grad) for a in result.call.args if isinstance(a, torch.Tensor)
    ]


@pytest.mark.parametrize(
    ("default", "written"),
    [
        ("torch.tensor(2.0)", "torch.tensor(2.)"),
        ("float('inf')", 'float("inf")'),
        ("torch.float64", "torch.float64"),
        ("object()", "... (object)"),
        ("'mean'", "'mean'"),
    ],
    ids=["tensor", "inf", "dtype", "object", "word"],
)
def test_default_is_written_as_python(found: Any, default: str, written: str) -> None:
    result = found(function("return x * 2", parameters=f"x, what={default}"))
    lines = pin("searched:X", result.call)
    assert lines.splitlines()[-1].endswith(f", {written}")
    assert ("put in what stands for ..." in lines) is written.startswith("...")
