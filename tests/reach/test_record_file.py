"""A call that is saved is the same call again, in another process too."""

import sys
import threading

import pytest
import torch

import gradsmith as gs
from gradsmith.errors import UsageError
from gradsmith.reach.inputs.record import _frames as frames
from gradsmith.reach.inputs.record import load_calls
from gradsmith.reach.inputs.record._pickle import dumps, loads
from tests.reach.recording import REPLAY, Scale, Take, copied, ones, python, recorded, written

HOME = Take.__module__


# --- tensors -----------------------------------------------------------------------------------------

BASE = torch.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    "tensor",
    [
        BASE,
        BASE.T,
        BASE[:, ::2],
        BASE[1:3, 2:],
        BASE[:1].expand(5, 6),
        torch.tensor(3.0).expand(2, 2),
        torch.empty(0, 3),
        torch.tensor(7),
        torch.tensor([True, False]),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(3, dtype=torch.float8_e4m3fn),
        torch.ones(2, dtype=torch.complex64) * 2j,
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.tensor([0.0, -0.0, float("nan"), float("inf")]),
    ],
    ids=lambda t: f"{str(t.dtype).removeprefix('torch.')}-{tuple(t.shape)}-{t.stride()}",
)
def test_a_tensor_keeps_its_values_strides_and_dtype(tensor):
    (again,) = copied(tensor)
    assert (again.dtype, again.shape, again.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    wide = torch.float32 if tensor.itemsize == 1 else tensor.dtype
    torch.testing.assert_close(again.to(wide), tensor.to(wide), equal_nan=True, rtol=0, atol=0)
    assert not again.requires_grad


def test_views_of_large_memory_go_without_it_and_stay_views_in_kind():
    column = torch.randn(2000, 500)[:, 3]
    data = dumps(None, (column,), {})
    assert len(data) < 100_000
    again = loads(data)[1][0]
    assert torch.equal(again, column)
    assert not again.is_contiguous()


def test_lazily_conjugated_and_negated_tensors_are_resolved():
    z = torch.tensor([1 + 2j])
    assert [t.item() for t in copied(z.conj(), z.conj().imag)] == [1 - 2j, -2.0]


def test_what_requires_grad_comes_back_as_a_leaf_that_does():
    x = ones(3)
    again, leaf = copied(x * 2, x)
    assert (again.is_leaf, again.requires_grad, leaf.requires_grad, again.tolist()) == (True, True, True, [2.0] * 3)


def test_one_object_among_the_arguments_is_one_object_again():
    layer = torch.nn.Linear(2, 3)
    again, weight, inside = copied(layer, layer.weight, {"w": [layer.weight]})
    assert again.weight is weight
    assert inside["w"][0] is weight
    assert type(weight) is torch.nn.Parameter
    assert torch.equal(weight, layer.weight)
    assert weight.data_ptr() != layer.weight.data_ptr()


def test_sparse_tensors_and_subclasses_stay_what_they_are():
    sparse = torch.tensor([0.0, 1.0]).to_sparse().requires_grad_()
    again, mine = copied(sparse, torch.ones(2).as_subclass(Mine))
    assert (again.layout, again.to_dense().tolist(), again.requires_grad) == (torch.sparse_coo, [0.0, 1.0], True)
    assert type(mine) is Mine


class Mine(torch.Tensor):
    pass


# --- to another process ------------------------------------------------------------------------------

SCRIPT = """
import sys, torch

def make(factor, style):
    layer, table = torch.nn.Linear(3, 3), torch.full((3,), float(factor))
    class Base(torch.autograd.Function):
        @staticmethod
        def backward(ctx, grad):
            return grad * factor * Base.sign(), None
        @staticmethod
        def sign():
            return helper(1)
    if style == "ctx":
        class Made(Base):
            @staticmethod
            def forward(ctx, x, config):
                return x * table + 0 * layer(x).detach()
    else:
        class Made(Base):
            @staticmethod
            def forward(x, config):
                return x * table + 0 * layer(x).detach()
            @staticmethod
            def setup_context(ctx, inputs, output):
                assert type(inputs[1]) is Config
    return Made

def helper(x):
    return x

class Config:
    pass

class Top(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, config):
        assert isinstance(config, Config)
        return 2 * x
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None

if __name__ == "__main__":
    x = torch.randn(2, 3, requires_grad=True)
    for made in (make(3, "ctx"), make(5, "setup"), Top):
        made.apply(x, Config()).sum().backward()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """A script with a factory, recorded."""
    folder = tmp_path_factory.mktemp("script")
    written(folder / "drive.py", SCRIPT)
    return folder, recorded(sys.executable, "drive.py", cwd=folder)


def test_functions_of_factories_and_scripts_run_again_in_another_process(script):
    folder, run = script
    assert run.returncode == 0, run.stderr
    again = python("-c", REPLAY, ".gradsmith/calls", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == [
        "drive:make.<locals>.Made 3.0 15 14 make.<locals>.Made",
        "drive:make.<locals>.Made 5.0 20 14 make.<locals>.Made",
        "drive:Top 2.0 35 34 Top",
    ]


def test_the_last_line_says_what_there_is_and_what_to_do_next(script):
    folder, run = script
    assert run.stdout == ""
    assert (
        run.stderr == "gradsmith: recorded 2 functions, 3 calls in .gradsmith/calls; next: gradsmith check drive.py\n"
    )
    assert (folder / ".gradsmith" / ".gitignore").read_text() == "*\n"


def test_a_file_of_calls_is_read_by_id_and_by_place(script):
    folder, _ = script
    calls = load_calls(folder / ".gradsmith" / "calls")
    assert [(f.id, f.reachable, f.why) for f in calls.ids()] == [
        ("drive:make.<locals>.Made", False, "made inside of make()"),
        ("drive:Top", True, ""),
    ]
    (call,) = calls.calls_for("drive:Top")
    assert (call.source, call.where) == ("recorded", f"{sys.executable} drive.py")
    assert call.subject.__qualname__ == "Top"
    assert len(calls.calls_for("elsewhere.drive:Top", file=str(folder / "drive.py"))) == 1
    assert calls.calls_for("drive:Other") == []


# --- the file ----------------------------------------------------------------------------------------


def test_one_broken_record_costs_itself_only(tmp_path):
    path = tmp_path / "calls"
    for name in ("a:A", "b:B", "c:C"):
        frames.append(path, frames.Frame({"id": name, "signature": name}, dumps(None, (torch.ones(2),), {})))
    whole = path.read_bytes()
    start = whole.index(b'"b:B"')
    damaged = whole[:start] + b"?" + whole[start + 1 :]
    path.write_bytes(damaged)
    assert [f.id for f in frames.read(path)] == ["a:A", "c:C"]
    path.write_bytes(whole[:-7])
    assert [f.id for f in frames.read(path)] == ["a:A", "b:B"]


def test_a_call_that_cannot_be_loaded_is_a_reason(tmp_path):
    path = tmp_path / "calls"
    frames.append(path, frames.Frame({"id": "a:A", "signature": "1"}, b"cno_such_module\nthing\n."))
    frames.append(path, frames.Frame({"id": "a:A", "signature": "2"}, dumps(None, (torch.ones(2),), {})))
    calls = load_calls(path)
    assert [call.args[0].tolist() for call in calls.calls_for("a:A")] == [[1.0, 1.0]]
    assert "No module named 'no_such_module'" in calls.unsaved["a:A"]
    assert "record it again" in calls.unsaved["a:A"]


@pytest.mark.parametrize("content", [None, b"", b"something else"], ids=["missing", "empty", "other"])
def test_a_file_that_holds_no_calls_is_refused(tmp_path, content):
    path = tmp_path / "calls"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="recorded calls"):
        load_calls(path)


def test_calls_are_saved_and_checked(tmp_path):
    with gs.record() as calls:
        Scale.apply(ones(3), {"factor": 2.0})
        Take.apply(ones(2), threading.Lock())
    path = tmp_path / "deep" / "calls"
    calls.save(path)
    again = load_calls(path)
    assert [call.name for call in again] == [f"{HOME}:Scale"]
    assert again.unsaved == calls.unsaved
    assert again.command == calls.command
    assert calls.command.startswith("gradsmith.record() at test_record_file.py:")


def test_check_gives_a_report_for_each_function():
    class Wrong(Take):
        @staticmethod
        def backward(ctx, grad):
            return 2 * grad, None

    with gs.record() as calls:
        Wrong.apply(ones(3), 1)
        Take.apply(torch.arange(3), 1)
    reports = calls.check(fast=True, select=["GS101"])
    assert [(name.rpartition(".")[2], report.ok) for name, report in reports.items()] == [("Wrong", False)]
    assert list(calls.unchecked) == [f"{HOME}:Take"]
