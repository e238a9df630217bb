"""Subjects, inputs and arguments as the command line names them."""

import sys
from pathlib import Path

import pytest
import torch

from gradsmith.check.command._load import load_subject, search_path
from gradsmith.check.command._read import read_argument, read_device, read_input
from gradsmith.errors import UsageError

SOURCE = """
import torch

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2

class Outer:
    class Inner:
        function = Double

def double(x):
    return Double.apply(x)

_hidden = double
here = __name__
"""


@pytest.fixture(autouse=True)
def same_modules():
    """Leaves the modules and the search path of this process as they were."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        if not name.startswith("torch"):
            del sys.modules[name]
    assert sys.path == path


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, source: str = SOURCE) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return str(path)

    return write


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as raised:
        load_subject(text)
    message = str(raised.value)
    assert "\n" not in message
    return message


class TestFiles:
    def test_a_name(self, write):
        double = load_subject(write("gs_norm.py") + "::Double")
        assert issubclass(double, torch.autograd.Function)
        assert double.__module__ == "gs_norm"
        assert sys.modules["gs_norm"].Double is double

    def test_dotted_names_and_one_colon(self, write):
        path = write("gs_norm.py")
        function = load_subject(path + "::Outer.Inner.function")
        assert function is load_subject(path + ":Double")  # one module for both

    def test_it_is_not_main(self, write):
        assert load_subject(write("gs_norm.py") + "::here") == "gs_norm"

    @pytest.mark.parametrize("name", ["json.py", "two words.py", "a-b.py", "torch.py", "ünï.py"])
    def test_a_file_called_like_another_module(self, write, name: str):
        before = sys.modules.get(Path(name).stem)
        double = load_subject(write(name) + "::double")
        assert double is load_subject(write(name) + "::double")
        assert sys.modules.get(Path(name).stem) is before or Path(name).stem == "ünï"

    def test_siblings_are_found_as_python_finds_them(self, write):
        write("gs_helper.py", "factor = 3")
        path = write(
            "gs_norm.py", "from gs_helper import factor\ndef late():\n    import gs_late\n    return gs_late.x"
        )
        write("gs_late.py", "x = 4")
        assert load_subject(path + "::factor") == 3
        late = load_subject(path + "::late")
        with search_path(path + "::late"):
            assert late() == 4

    def test_relative_imports_in_a_package(self, write):
        for name in ("gs_pack/__init__.py", "gs_pack/sub/__init__.py"):
            write(name, "")
        write("gs_pack/base.py", "factor = 5")
        path = write("gs_pack/sub/norm.py", "from ..base import factor\nhere = __name__")
        assert load_subject(path + "::factor") == 5
        assert load_subject(path + "::here") == "gs_pack.sub.norm"

    def test_a_file_in_a_package_without_them_is_imported_alone(self, write):
        write("gs_pack/__init__.py", "raise RuntimeError('not needed')")
        write("gs_pack/gs_beside.py", "x = 6")
        assert load_subject(write("gs_pack/gs_norm.py", "from gs_beside import x") + "::x") == 6

    def test_the_current_folder(self, write, tmp_path, monkeypatch):
        write("gs_norm.py")
        monkeypatch.chdir(tmp_path)
        assert callable(load_subject("gs_norm.py::double"))


class TestModules:
    def test_a_name(self):
        assert load_subject("torch.nn.functional:relu") is torch.nn.functional.relu
        assert load_subject("torch:nn.functional.relu") is torch.nn.functional.relu

    def test_from_the_current_folder(self, write, tmp_path, monkeypatch):
        write("gs_pack/__init__.py", "")
        write("gs_pack/norm.py")
        monkeypatch.chdir(tmp_path)
        assert callable(load_subject("gs_pack.norm:double"))

    def test_no_such_module(self):
        assert refusal("no_such:f") == "there is no module 'no_such'"
        assert refusal("torch.no_such:f") == "there is no module 'torch.no_such'"
        assert refusal("no_such.at.all:f") == "there is no module 'no_such.at.all' (there is no module 'no_such')"

    def test_a_module_that_misses_another(self, write, tmp_path, monkeypatch):
        write("gs_norm.py", "x = 1\nimport gs_absent")
        monkeypatch.chdir(tmp_path)
        message = refusal("gs_norm:x")
        assert message.startswith("'gs_norm' does not import: ModuleNotFoundError: No module named 'gs_absent' (")
        assert message.endswith("gs_norm.py:2)")

    def test_a_path_where_a_module_is_expected(self):
        assert "'a/b' is not the name of a module" in refusal("a/b:f")


class TestRefusals:
    @pytest.mark.parametrize("text", ["", ":", "::", "::f", ":f"])
    def test_no_place(self, text: str):
        assert "expected FILE.py::Name or package.module:Name" in refusal(text)

    def test_no_name(self, write):
        path = write("gs_norm.py")
        for text in (path, path + "::"):
            message = refusal(text)
            assert message.startswith(f"the name is missing after '{path}'; expected FILE.py::Name")
            assert message.endswith("; it has Double, Outer, double")

    @pytest.mark.parametrize("name", ["a b", "f()", "x[0]", ".f", "f."])
    def test_what_is_not_a_name(self, write, name: str):
        assert f"'{name}' in " in refusal(write("gs_norm.py") + "::" + name)

    def test_no_such_file(self, write, tmp_path):
        write("gs_norm.py")
        assert refusal(f"{tmp_path}/gs_nrm.py::f") == (
            f"there is no file '{tmp_path}/gs_nrm.py'; did you mean gs_norm.py?"
        )
        assert refusal("/no/such/folder/f.py::f") == "there is no file '/no/such/folder/f.py'"
        assert "is a folder" in refusal(f"{tmp_path}::f")

    def test_no_such_name(self, write):
        path = write("gs_norm.py")
        assert refusal(path + "::doubel") == (
            f"'{path}' has no 'doubel'; did you mean Double or double?; it has Double, Outer, double"
        )
        assert refusal(path + "::zzz") == f"'{path}' has no 'zzz'; it has Double, Outer, double"
        assert "has no 'Double.nothing'" in refusal(path + "::Double.nothing")

    def test_many_candidates_are_not_all_listed(self, write):
        path = write("gs_many.py", "\n".join(f"def function{i}(): pass" for i in range(100)))
        assert refusal(path + "::zzz").endswith("function19 and 80 more")

    def test_nothing_in_it(self, write):
        assert refusal(write("gs_none.py", "x = 1") + "::f").endswith("; it defines nothing that could be checked")

    @pytest.mark.parametrize(
        ("source", "told", "line"),
        [
            ("x = 1\nraise ValueError('two\\nlines')", "ValueError: two lines", 2),
            ("\n\nx = 1 / 0", "ZeroDivisionError: division by zero", 3),
            ("def f(:\n  pass", "SyntaxError: ", 1),
            ("import sys\nsys.exit(3)", "it calls sys.exit(3)", 2),
            ("import gs_absent_module", "ModuleNotFoundError: No module named 'gs_absent_module'", 1),
            ("from . import x", "ImportError: attempted relative import", 1),
            ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "E (", 3),
            ("class B(BaseException): pass\nraise B('base')", "B: base", 2),
            ("import torch\ntorch.ones(2) + torch.ones(3)", "RuntimeError: The size of tensor", 2),
        ],
    )
    def test_a_file_that_does_not_import(self, write, source: str, told: str, line: int):
        path = write("gs_bad.py", source)
        message = refusal(path + "::f")
        assert message.startswith(f"'{path}' does not import: {told}")
        assert message.endswith(f"gs_bad.py:{line})")
        assert "gs_bad" not in sys.modules

    def test_the_fault_is_told_where_the_file_met_it(self, write):
        write("gs_helper.py", "def helper():\n    raise KeyError('k')")
        path = write("gs_bad.py", "import gs_helper\n\ngs_helper.helper()")
        assert refusal(path + "::f").endswith("gs_bad.py:3)")

    def test_interruption_goes_through(self, write):
        with pytest.raises(KeyboardInterrupt):
            load_subject(write("gs_bad.py", "raise KeyboardInterrupt") + "::f")

    def test_not_text(self, tmp_path):
        (tmp_path / "gs_bin.py").write_bytes(b"\xff\x00\xfe")
        assert "does not import: SyntaxError" in refusal(f"{tmp_path}/gs_bin.py::f")

    def test_a_module_whose_names_fail(self, write):
        path = write("gs_lazy.py", "def __getattr__(name):\n    raise RuntimeError('no')")
        assert refusal(path + "::f") == f"looking up 'f' in '{path}' fails: RuntimeError: no"


class TestInputs:
    @pytest.mark.parametrize(
        ("text", "name", "shape", "dtype"),
        [
            ("3x4", "", [3, 4], torch.float32),
            ("4", "", [4], torch.float32),
            ("scalar", "", [], torch.float32),
            ("0x3", "", [0, 3], torch.float32),
            ("x=2x3x4:float64", "x", [2, 3, 4], torch.float64),
            (" x = 2 : torch.bfloat16 ", "x", [2], torch.bfloat16),
            ("2:half", "", [2], torch.float16),
            ("3:complex64", "", [3], torch.complex64),
        ],
    )
    def test_with_a_gradient(self, text, name, shape, dtype):
        found, tensor = read_input(text)
        assert (found, list(tensor.shape), tensor.dtype) == (name, shape, dtype)
        assert tensor.requires_grad
        assert tensor.is_leaf

    def test_is_standard_normal_from_the_generator(self):
        once, again, other = (read_input("1000", torch.Generator().manual_seed(seed))[1].detach() for seed in (0, 0, 1))
        assert torch.equal(once, again)
        assert not torch.equal(once, other)
        assert abs(once.mean()) < 0.2
        assert 0.8 < once.std() < 1.2

    def test_a_range(self):
        _, x = read_input("1000:0.1..2")
        assert 0.1 <= x.min() < 0.2
        assert 1.9 < x.max() <= 2
        _, x = read_input("1000:float64:-1e-3..-1e-4")
        assert -1e-3 <= x.min() < x.max() <= -1e-4

    def test_whole_numbers_include_both_ends(self):
        _, x = read_input("1000:int64:0..9")
        assert x.dtype == torch.int64
        assert sorted(set(x.tolist())) == list(range(10))
        assert not x.requires_grad
        assert read_input("5:uint8:255..255")[1].tolist() == [255] * 5

    def test_bool(self):
        _, x = read_input("mask=100:bool")
        assert x.dtype == torch.bool
        assert 0 < x.sum() < 100
        assert not x.requires_grad

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("", "'' are no sizes"),
            ("3,4", "'3,4' are no sizes"),
            ("3x", "'3x' are no sizes"),
            ("-1", "'-1' are no sizes"),
            ("٣", "are no sizes"),
            ("3x4:flaot32", "'flaot32' is no dtype that can be made up"),
            ("3:float32:0..1:9", "there are too many colons"),
            ("5:int64", "int64 needs a range, as in 5:int64:0..9"),
            ("5:int64:0.5..2", "'0.5..2' is no range of ints"),
            ("5:int8:0..128", "'0..128' is outside the range of int8"),
            ("5:9..0", "is no range from a finite number to a larger one"),
            ("5:0..inf", "is no range from a finite number"),
            ("5:nan..1", "is no range from a finite number"),
            ("5:..", "is no range of floats"),
            ("5:float16:0..1e9", "is outside the range of float16"),
            ("5:bool:0..1", "bool takes no range"),
            ("5:complex64:0..1", "complex numbers take no range"),
            ("a b=3", "'a b' is not a name"),
            ("=3", "'' is not a name"),
            ("99999x99999", "is more than 100000000 elements"),
        ],
    )
    def test_refusals(self, text: str, told: str):
        with pytest.raises(UsageError) as raised:
            read_input(text)
        assert told in str(raised.value)
        assert "expected [name=]SIZES[:DTYPE][:LOW..HIGH]" in str(raised.value)
        assert "\n" not in str(raised.value)


class TestArguments:
    @pytest.mark.parametrize(
        ("text", "name", "value"),
        [
            ("eps=1e-5", "eps", 1e-5),
            ("n = -3", "n", -3),
            ("shape=(3, 4)", "shape", (3, 4)),
            ("affine=True", "affine", True),
            ("bias=None", "bias", None),
            ("reduction=none", "reduction", "none"),
            ("mode='a b'", "mode", "a b"),
            ("limit=-inf", "limit", float("-inf")),
            ("dtype=torch.float64", "dtype", torch.float64),
            ("dtype=float64", "dtype", "float64"),
            ("device=cpu", "device", "cpu"),
        ],
    )
    def test_values(self, text, name, value):
        assert read_argument(text) == (name, value)
        assert type(read_argument(text)[1]) is type(value)

    @pytest.mark.parametrize("text", ["eps", "=3", "a b=3", "x=", "x=[1,", "x=f()", "x=a=b", "x=1+", "x=" + "(" * 5000])
    def test_refusals(self, text: str):
        with pytest.raises(UsageError, match="argument '") as raised:
            read_argument(text)
        assert len(str(raised.value)) < 300

    def test_devices(self):
        assert read_device("cpu") == torch.device("cpu")
        for text in ("gpu", "cuda:99", "meta:x"):
            with pytest.raises(UsageError, match="cannot be used: "):
                read_device(text)
