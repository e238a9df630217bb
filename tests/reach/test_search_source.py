"""Call sites: what the source of a package says of the arguments of `X.apply`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradsmith.reach.inputs.search._index import UNKNOWN, Argument, SourceIndex


def arguments(folder: Path, text: str, name: str = "X") -> tuple[Argument, ...]:
    file = folder / "source.py"
    file.write_text(textwrap.dedent(text))
    return SourceIndex([str(file)]).call_sites(name)[0].args


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("def f(x): return X.apply(x, 0.5)", 0.5),
        ("def f(x, a=0.25): return X.apply(x, a)", 0.25),
        ("A = -3\ndef f(x): return X.apply(x, A)", -3),
        ("def f(x):\n    a = 'mean'\n    return X.apply(x, a)", "mean"),
        ("f = X.apply\ndef g(x): return f(x, 2)", 2),
        ("def f(x, *, a=True): return X.apply(x, a)", True),
        (
            "class M:\n    def __init__(self, a=7):\n        self.a = a\n    def g(self, x): return X.apply(x, self.a)",
            7,
        ),
        ("class M:\n    def __init__(self):\n        self.f = X.apply\n    def g(self, x): return self.f(x, 1)", 1),
        ("from . import ops\ndef f(x): return ops.X.apply(x, None)", None),
        ("async def f(x, a=4): return X.apply(x, a)", 4),
    ],
    ids=["literal", "default", "module", "local", "alias", "keyword", "self", "own alias", "dotted", "async"],
)
def test_value_of_an_argument(tmp_path: Path, text: str, value: object) -> None:
    assert arguments(tmp_path, text)[1].value == value


def test_unknown_argument_keeps_name_and_annotation(tmp_path: Path) -> None:
    x, a = arguments(tmp_path, "def f(x: Tensor, a: int): return X.apply(x.contiguous(), a)")
    assert (x.name, x.value, a.annotation, a.value) == ("x", UNKNOWN, "int", UNKNOWN)


def test_site_that_says_most_comes_first(tmp_path: Path) -> None:
    assert arguments(tmp_path, "def f(x, a): return X.apply(x, a)\ndef g(x): return X.apply(x, 3)")[1].value == 3


def test_names_that_go_round_in_circles(tmp_path: Path) -> None:
    assert arguments(tmp_path, "a = b\nb = a\ndef f(x): return X.apply(x, a)")[1].value is UNKNOWN


def test_starred_arguments_are_marked(tmp_path: Path) -> None:
    assert arguments(tmp_path, "def f(x, *more): return X.apply(x, *more)")[1].starred


def test_unreadable_files_are_passed_over(tmp_path: Path) -> None:
    broken, binary = tmp_path / "broken.py", tmp_path / "binary.py"
    broken.write_text("X.apply(")
    binary.write_bytes(b"apply\x00\xff")
    assert SourceIndex([str(broken), str(binary), str(tmp_path / "missing.py")]).call_sites("X") == []
