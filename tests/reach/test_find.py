"""What is found by importing, what becomes of modules that do not import, and the way back to the object."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gradsmith.errors import UsageError
from gradsmith.reach.find import find, load
from tests.reach.finding import by_id, folder, function, write

__all__ = ["folder"]

HEAD = "import sys\nimport torch\nfrom torch.autograd import Function\n"


def package(folder: Path, files: dict[str, str]) -> None:
    write(folder / "pkg", {"__init__.py": "", **files})


def test_nothing_of_torch_comes_with_the_room() -> None:
    code = "import sys, gradsmith.reach.find; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


class TestFunctions:
    def test_each_is_found_once_and_loads(self, folder: Path) -> None:
        package(
            folder,
            {
                "__init__.py": "from .a import *\nfrom .a import X as Alias\n",
                "a.py": HEAD + function("X") + "Y = X\nclass Out:\n    class In(X): pass\n",
                "b.py": "from pkg.a import X\nbound = X.apply\n",
            },
        )
        found = find("pkg")
        assert [f.id for f in found.found] == ["pkg.a:X", "pkg.a:Out.In"]
        assert all(f.reachable and not f.exempt and f.kind == "Function" for f in found.found)
        assert [f.line for f in found.found] == [5, 15]
        assert load(found.found[0], found) is sys.modules["pkg.a"].X
        assert load(found.found[1], found) is sys.modules["pkg.a"].Out.In
        assert (found.root, found.search, found.unread) == (str(folder / "pkg"), (str(folder),), ())

    def test_foreign_ones_are_left_out(self, folder: Path) -> None:
        write(folder, {"other/__init__.py": HEAD + function("Foreign")})
        package(folder, {"a.py": "from other import Foreign\nclass Own(Foreign):\n    backward = Foreign.backward\n"})
        assert [f.id for f in find("pkg").found] == ["pkg.a:Own"]

    def test_those_of_factories(self, folder: Path) -> None:
        inside = function("In").replace("\n", "\n    ")
        package(
            folder,
            {
                "factory.py": f"{HEAD}def make():\n    {inside}\n    return In\ndef lost():\n    {inside}\n",
                "keeps.py": "from . import factory\n\nMade = factory.make()\nclass Ops:\n    other = factory.make()\n",
                "typed.py": HEAD + function("X") + "for n in 'AB':\n    globals()[n] = type(n, (X,), {})\n",
            },
        )
        found = find("pkg")
        known = by_id(found)
        assert set(known) == {
            *("pkg.keeps:Made", "pkg.keeps:Ops.other", "pkg.factory:lost.<locals>.In"),
            *("pkg.typed:X", "pkg.typed:A", "pkg.typed:B"),
        }
        assert known["pkg.keeps:Made"].line == 3
        assert known["pkg.keeps:Made"].file == str(folder / "pkg" / "keeps.py")
        lost = known["pkg.factory:lost.<locals>.In"]
        assert (lost.reachable, lost.why) == (False, "made inside of lost()")
        assert load(known["pkg.keeps:Ops.other"], found) is sys.modules["pkg.keeps"].Ops.other
        with pytest.raises(UsageError, match=r"made inside of lost\(\)"):
            load(lost, found)

    def test_those_without_a_gradient_are_exempt(self, folder: Path) -> None:
        forward = "    @staticmethod\n    def forward(ctx, x):\n        {}\n"
        raises = forward.format("raise NotImplementedError")
        backward = "    @staticmethod\n    def backward(ctx, g): return g\n"
        text = HEAD + "class Export(Function):\n" + forward.format("return x") + "    symbolic = None\n"
        text += "class Abstract(Function):\n" + raises + backward
        text += "class Bare(Function):\n" + backward
        text += "class Heir(Abstract):\n" + forward.format("return x")
        text += "class Alone(Function):\n" + raises + backward
        package(folder, {"a.py": text, "b.py": text.replace("import sys\n", "import nowhere\n")})
        exempt = {f.id for f in find("pkg").found if f.exempt}
        assert exempt == {"pkg.a:Export", "pkg.a:Abstract", "pkg.a:Bare", "pkg.b:Export", "pkg.b:Abstract"}

    def test_two_of_one_name(self, folder: Path) -> None:
        text = f"{HEAD}if False:{function('X')}else:{function('X')}".replace("\nclass", "\n    class")
        text = (
            text.replace("\n    @", "\n        @")
            .replace("\n    def", "\n        def")
            .replace("\n        r", "\n         r")
        )
        package(folder, {"a.py": text})
        (found,) = find("pkg").found
        assert found.line == text[: text.rindex("class X")].count("\n") + 1


class TestModulesThatMisbehave:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
            ("sys.exit('no GPU')", "it calls sys.exit('no GPU')"),
            ("raise BaseException('x')", "BaseException: x"),
            ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "E"),
            ("1/0", "pkg/a.py:8)"),
        ],
        ids=["missing", "exit", "base", "no words", "line"],
    )
    def test_it_is_read_instead(self, folder: Path, text: str, said: str) -> None:
        package(folder, {"a.py": HEAD + "\n\n\n\n" + text + "\n" + function("X"), "b.py": HEAD + function("Y")})
        found = find("pkg")
        known = by_id(found)
        assert known["pkg.b:Y"].reachable
        assert not known["pkg.a:X"].reachable
        assert known["pkg.a:X"].why.startswith("its module does not import: ")
        assert [u.module for u in found.unread] == ["pkg.a"]
        assert said in known["pkg.a:X"].why
        with pytest.raises(UsageError, match="does not import"):
            load(known["pkg.a:X"], found)

    def test_a_package_that_fails_is_tried_once_and_told_of_once(self, folder: Path) -> None:
        counter = "import builtins\nbuiltins.gradsmith_runs = getattr(builtins, 'gradsmith_runs', 0) + 1\n"
        package(
            folder,
            {"__init__.py": counter + "import nowhere", "a.py": HEAD + function("X"), "b.py": HEAD + function("Y")},
        )
        found = find("pkg")
        import builtins

        assert builtins.gradsmith_runs == 1  # type: ignore[attr-defined]
        assert [u.module for u in found.unread] == ["pkg"]
        assert {f.why.partition(" (")[0] for f in found.found} == {
            "its package pkg does not import: ModuleNotFoundError: No module named 'nowhere'"
        }

    def test_what_was_whole_before_its_package_failed_is_had(self, folder: Path) -> None:
        package(folder, {"__init__.py": "from . import a\nimport nowhere", "a.py": HEAD + function("X")})
        found = find("pkg")
        assert by_id(found)["pkg.a:X"].reachable
        for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
            del sys.modules[name]
        assert load(found.found[0], found).__name__ == "X"  # in another process too

    def test_progress_and_skip(self, folder: Path) -> None:
        package(
            folder,
            {
                "a.py": HEAD + "from . import deadly\n" + function("X"),
                "b.py": HEAD + "try:\n    from . import deadly\nexcept ImportError: pass\n" + function("Y"),
                "deadly.py": "from torch.autograd import Function\n" + function("Z"),
            },
        )
        told: list[str] = []
        find("pkg", progress=told.append)
        assert told == ["pkg", "pkg.a", "pkg.deadly", "pkg.a", "pkg.b"]
        for name in ("pkg.a", "pkg.b", "pkg.deadly"):
            del sys.modules[name]
            delattr(sys.modules["pkg"], name.partition(".")[2])
        found = find("pkg", skip=["pkg.deadly"])
        known = by_id(found)
        assert known["pkg.deadly:Z"].why == "importing its module ends the process"
        assert not known["pkg.a:X"].reachable
        assert known["pkg.b:Y"].reachable
        assert [u.module for u in found.unread] == ["pkg.a"]  # who asked to skip knows of the other

    def test_a_module_that_hangs(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gradsmith.reach.find._modules._SECONDS", 0.3)
        package(folder, {"a.py": HEAD + "import time\ntime.sleep(60)\n" + function("X")})
        assert "it takes too long" in find("pkg").found[0].why

    def test_an_object_in_the_place_of_a_module(self, folder: Path) -> None:
        replaced = "class Lazy:\n    __slots__ = ()\n    def __getattr__(self, n):\n        return kept[n]\n"
        replaced += "kept = globals()\nsys.modules[__name__] = Lazy()\n"
        package(folder, {"a.py": HEAD + function("X") + replaced})
        found = find("pkg")
        assert by_id(found)["pkg.a:X"].reachable
        assert load(found.found[0], found).__name__ == "X"

    def test_a_module_that_loads_at_first_use(self, folder: Path) -> None:
        lazy = "import importlib\ndef __getattr__(name):\n    if name == 'X':\n"
        lazy += "        return importlib.import_module('.a', __name__).X\n    raise AttributeError(name)\n"
        package(folder, {"__init__.py": lazy, "a.py": HEAD + function("X")})
        assert [(f.id, f.reachable) for f in find("pkg").found] == [("pkg.a:X", True)]

    def test_programs_are_read_only(self, folder: Path) -> None:
        text = HEAD + "raise SystemExit\n" + function("X")
        write(folder / "repo", {"setup.py": text, "pkg/__init__.py": "", "pkg/__main__.py": text, "test_x.py": text})
        found = find("repo")
        assert {f.id: f.why for f in found.found} == {
            "setup:X": "setup.py is read, and never imported: it is a program or a test",
            "pkg.__main__:X": "__main__.py is read, and never imported: it is a program or a test",
        }
        assert found.unread == ()


class TestLooseFiles:
    def test_siblings_and_names_that_others_have(self, folder: Path) -> None:
        run = HEAD + "from helper import scale\n" + function("X") + "X.scale = scale\nif __name__ == '__main__': 1/0\n"
        files = {
            f"{d}/{n}.py": t for d, s in (("a", 1), ("b", 2)) for n, t in (("run", run), ("helper", f"scale = {s}"))
        }
        write(folder / "scripts", {**files, "random.py": HEAD + function("Y"), "my-own.py": HEAD + function("Z")})
        found = find("scripts")
        assert set(by_id(found)) == {"a.run:X", "b.run:X", "random:Y", "my_own:Z"}
        assert all(f.reachable for f in found.found), [f.why for f in found.found]
        assert [load(by_id(found)[f"{d}.run:X"], found).scale for d in "ab"] == [1, 2]
        assert load(by_id(found)["random:Y"], found).__name__ == "Y"
        assert hasattr(sys.modules["random"], "gauss")

    def test_one_file(self, folder: Path) -> None:
        write(folder, {"mine.py": HEAD + function("X")})
        found = find("mine.py")
        assert [(f.id, f.file, f.line) for f in found.found] == [("mine:X", str(folder / "mine.py"), 5)]
        assert load(found.found[0], found) is sys.modules["mine"].X

    def test_a_copy_of_what_is_imported_already_is_not_taken_for_it(self, folder: Path) -> None:
        write(folder / "copy", {"torch/__init__.py": "", "torch/x.py": HEAD + function("X")})
        found = find("copy")
        assert "another" in found.found[0].why
        assert torch.autograd


class TestOperators:
    def test_both_kinds(self, folder: Path) -> None:
        text = HEAD + (
            "@torch.library.custom_op('gs_find::twice', mutates_args=())\n"
            "def twice(x: torch.Tensor) -> torch.Tensor: return x * 2\n"
            "twice.register_autograd(lambda ctx, g: 2 * g)\n"
            "@torch.library.custom_op('gs_find::none', mutates_args=())\n"
            "def none(x: torch.Tensor) -> torch.Tensor: return x * 2\n"
        )
        library = (
            "import torch\nlib = torch.library.Library('gs_find2', 'DEF')\n"
            "for n in ('one', 'two'):\n    lib.define(n + '(Tensor x) -> Tensor')\n"
            "    lib.impl(n, lambda x: x * 2, 'CPU')\n"
            "    torch.library.register_autograd(f'gs_find2::{n}', lambda ctx, g: 2 * g, lib=lib)\n"
        )
        package(folder, {"a.py": text, "b.py": library})
        found = find("pkg")
        assert {f.name: (f.kind, f.module, f.exempt) for f in found.found} == {
            "gs_find::twice": ("custom_op", "pkg.a", False),
            "gs_find::none": ("custom_op", "pkg.a", True),
            "gs_find2::one": ("operator", "pkg.b", False),
            "gs_find2::two": ("operator", "pkg.b", False),
        }
        assert [f.line for f in found.found] == [4, 7, 3, 3]
        x = torch.ones(2)
        assert [load(f, found)(x).tolist() for f in found.found] == [[2.0, 2.0]] * 4


class TestDeclared:
    def test_where_it_is_defined(self, folder: Path) -> None:
        text = (
            "import gradsmith as gs\nimport torch\n"
            "@gs.gradient_of(torch.tanh)\ndef sign(x): return torch.sign(x)\n"
            "round = gs.straight_through(torch.round)\n"
            "class Ops:\n    floor = gs.straight_through(torch.floor)\n"
        )
        package(folder, {"__init__.py": "from .a import sign, round\n", "a.py": text})
        found = find("pkg")
        assert [(f.id, f.kind, f.line, f.reachable) for f in found.found] == [
            ("pkg.a:sign", "declared", 3, True),
            ("pkg.a:round", "declared", 5, True),
            ("pkg.a:Ops.floor", "declared", 7, True),
        ]
        assert load(found.found[0], found) is sys.modules["pkg"].sign


class TestModules:
    def test_only_with_a_backward_of_their_own(self, folder: Path) -> None:
        text = "import torch\nclass A(torch.nn.Module):\n    def backward(self, g): return g\nclass B(A): pass\n"
        package(folder, {"a.py": text})
        found = find("pkg")
        assert [(f.id, f.kind, f.reachable) for f in found.found] == [("pkg.a:A", "Module", True)]
