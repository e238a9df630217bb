"""What reading alone tells: nothing here is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradsmith.reach.find._source import Reading
from gradsmith.reach.find._target import resolve
from tests.reach.finding import folder, write

__all__ = ["folder"]

BODY = "\n    @staticmethod\n    def forward(ctx, x): ...\n    @staticmethod\n    def backward(ctx, g): ...\n"


def read(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The kinds of what is found in a package `pkg`, by name."""
    write(folder / "pkg", {"__init__.py": "", **files})
    reading = Reading(resolve("pkg").files)
    return {f"{module.removeprefix('pkg.')}:{name}": d.kind for (module, name), d in reading.definitions.items()}


class TestBases:
    @pytest.mark.parametrize(
        "text",
        [
            "import torch\nclass X(torch.autograd.Function):",
            "import torch as t\nclass X(t.autograd.Function):",
            "import torch.autograd as ag\nclass X(ag.Function):",
            "from torch import autograd\nclass X(autograd.Function):",
            "from torch.autograd import Function as F\nclass X(F):",
            "from torch.autograd import (Variable,\n    Function)\nclass X(Function):",
            "from torch.autograd import *\nclass X(Function):",
            "from torch.autograd.function import InplaceFunction\nclass X(InplaceFunction):",
            "from torch.autograd.function import NestedIOFunction\nclass X(NestedIOFunction):",
            "import torch\nBase = torch.autograd.Function\nclass X(Base):",
            "import torch\nclass X(torch.autograd.Function if torch else object):",
            "try:\n    from nowhere import Base\nexcept ImportError:\n    from torch.autograd import Function as Base\n"
            "class X(Base):",
            "from abc import ABCMeta\nfrom six import with_metaclass\nfrom torch.autograd import Function\n"
            "class X(with_metaclass(ABCMeta, Function)):",
            "from torch.autograd import Function\nclass Mixin: pass\nclass X(Mixin, Function):",
        ],
        ids=range(14),
    )
    def test_however_it_is_imported(self, folder: Path, text: str) -> None:
        assert read(folder, {"a.py": text + BODY}) == {"a:X": "Function"}

    @pytest.mark.parametrize(
        "text",
        [
            "class Function: pass\nclass X(Function):",
            "from typing import Any\nclass X(Any):",
            "class X(X):",
            "import torch\nclass X(torch.nn.Function):",
            "a = b.c\nb = a.d\nclass X(a.Function):",
        ],
        ids=range(5),
    )
    def test_others_are_not_taken_for_one(self, folder: Path, text: str) -> None:
        assert read(folder, {"a.py": text + BODY}) == {}

    def test_through_the_package(self, folder: Path) -> None:
        files = {
            "base.py": "from torch.autograd import Function as Root\nclass Base(Root):" + BODY,
            "api.py": "from .base import Base as Exported",
            "star.py": "from .api import *",
            "deep/__init__.py": "",
            "deep/x.py": "from ..star import Exported\nclass X(Exported): scale = 2",  # no word of autograd
            "deep/y.py": "from pkg.deep import x\nclass Y(x.X): scale = 3",
            "alias.py": "from .base import Root\nclass Z(Root):" + BODY,
        }
        found = read(folder, files)
        assert found == dict.fromkeys(["base:Base", "deep.x:X", "deep.y:Y", "alias:Z"], "Function")

    def test_nested(self, folder: Path) -> None:
        nested = "class In(Function):" + BODY.replace("\n", "\n    ")
        text = f"from torch.autograd import Function\ndef make():\n    {nested}\nclass Out:\n    {nested}"
        assert read(folder, {"a.py": text}) == dict.fromkeys(["a:make.<locals>.In", "a:Out.In"], "Function")

    def test_modules_with_a_backward_of_their_own(self, folder: Path) -> None:
        text = "from torch import nn\nclass A(nn.Module):\n    def backward(self, g): ...\nclass B(nn.Module): pass\n"
        text += "class C(A): pass\nclass D(B):\n    def backward(self, g): ...\n"
        assert read(folder, {"a.py": text}) == {"a:A": "Module", "a:D": "Module"}

    def test_lines_count_decorators(self, folder: Path) -> None:
        write(folder, {"a.py": "import torch\n\n@f\n@g\nclass X(torch.autograd.Function):" + BODY})
        assert [d.line for d in Reading(resolve("a.py").files).definitions.values()] == [3]


class TestGradients:
    def test_who_has_one(self, folder: Path) -> None:
        text = "from torch.autograd import Function\nfrom elsewhere import Unknown\n"
        text += "class Base(Function):" + BODY + "class Heir(Base): pass\nclass Export(Function):\n"
        text += "    @staticmethod\n    def symbolic(g, x): ...\nclass Either(Unknown, Function): pass\n"
        text += "class Vjp(Function):\n    vjp = None\n"
        write(folder, {"a.py": text})
        reading = Reading(resolve("a.py").files)
        has = {name: reading.has_gradient(d) for (_, name), d in reading.definitions.items()}
        assert has == {"Base": True, "Heir": True, "Export": False, "Either": True, "Vjp": True}


class TestOperators:
    def test_registered_by_the_definition_by_name_and_elsewhere(self, folder: Path) -> None:
        head = "import torch\nfrom torch.library import custom_op, register_autograd\n"
        files = {
            "a.py": head + "@custom_op('n::a', mutates_args=())\ndef a(x): ...\na.register_autograd(b)\n"
            "@torch.library.custom_op('n::none', mutates_args=())\ndef none(x): ...\n",
            "b.py": head + "@custom_op('n::b', mutates_args=())\ndef b(x): ...\nregister_autograd('n::b', b)\n"
            "register_autograd('other::c.default', b)\n",
            "c.py": head + "from .d import d\ntorch.library.register_autograd(d, f)\n",
            "d.py": head + "d = custom_op('n::d', f, mutates_args=())\n",
            "e.py": "from torch.library import Library\nl = Library('m', 'DEF')\nl.impl('e', f, 'Autograd')\n",
        }
        assert read(folder, files) == {
            "a:n::a": "custom_op",
            "b:n::b": "custom_op",
            "b:other::c": "operator",
            "d:n::d": "custom_op",
            "e:m::e": "operator",
        }


class TestDeclared:
    def test_as_decorator_and_as_call(self, folder: Path) -> None:
        text = "import gradsmith as gs\nfrom gradsmith import gradient_of\n@gs.custom_gradient\ndef a(x): ...\n"
        text += "@gradient_of(f)\ndef b(x): ...\nc = gs.straight_through(f)\nd = gradient_of(g)(f)\n"
        text += "class Ops:\n    e = gs.straight_through(f)\ndef make():\n    g = gs.straight_through(f)\n"
        expected = dict.fromkeys(["a:a", "a:b", "a:c", "a:d", "a:Ops.e", "a:make.<locals>.g"], "declared")
        assert read(folder, {"a.py": text}) == expected

    def test_another_of_that_name(self, folder: Path) -> None:
        assert read(folder, {"a.py": "from jax import custom_gradient\n@custom_gradient\ndef a(x): ..."}) == {}


class TestUnreadable:
    def test_a_file_that_does_not_parse_is_told_of(self, folder: Path) -> None:
        write(
            folder / "pkg", {"__init__.py": "", "a.py": "from torch.autograd import Function\nprint 'x'", "b.py": "("}
        )
        assert list(Reading(resolve("pkg").files).unread) == ["pkg.a"]  # the other says nothing of gradients

    def test_bytes_of_any_kind(self, folder: Path) -> None:
        write(folder, {"pkg/__init__.py": ""})
        (folder / "pkg" / "a.py").write_bytes(b"# coding: latin-1\nclass X(f.Function): '\xe9'\n")
        (folder / "pkg" / "b.py").write_bytes(b"class X(f.Function): '\0\xff'\n")
        assert list(Reading(resolve("pkg").files).unread) == ["pkg.b"]


class TestTelling:
    def test_what_is_imported(self, folder: Path) -> None:
        files = {
            "__init__.py": "",
            "ops.py": "from torch.autograd import Function\nclass X(Function):" + BODY,
            "factory.py": "import torch\ndef make():\n    class In(torch.autograd.Function): pass\n    return In",
            "keeps.py": "from .factory import make\nmade = make()",
            "foreign.py": "from elsewhere import Base\nclass Y(Base):" + BODY,
            "uses.py": "from .ops import X\nf = X.apply",
            "model.py": "import torch\nclass Net(torch.nn.Module): pass",
        }
        write(folder / "pkg", files)
        assert Reading(resolve("pkg").files).telling == {"pkg.ops", "pkg.factory", "pkg.keeps", "pkg.foreign"}
