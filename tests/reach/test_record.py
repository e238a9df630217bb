"""Recording: what is kept of a call, that it can be made again elsewhere, and that the program does not notice."""

import enum
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest
import torch
from click.testing import CliRunner

import gradsmith as gs
from gradsmith.cli import main
from gradsmith.errors import UsageError
from gradsmith.reach.inputs import _record_frames as frames
from gradsmith.reach.inputs._record_pickle import dumps, loads
from gradsmith.reach.inputs._record_recorder import _MOST_TRIES
from gradsmith.reach.inputs.record import load_calls


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, options):
        ctx.factor = options.pop("factor")
        return x * ctx.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Take(torch.autograd.Function):
    """Takes anything."""

    @staticmethod
    def forward(ctx, x, *rest):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, *[None] * (len(ctx.needs_input_grad) - 1)


class Full(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor=2.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Mode(enum.Enum):
    LOW = 1


apply_bound_early = Scale.apply


def ones(*size):
    return torch.ones(*size, requires_grad=True)


def copied(*args):
    return loads(dumps(None, args, {}))[1]


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


# --- what is kept ------------------------------------------------------------------------------------


def test_arguments_are_those_before_the_call():
    options = {"factor": 3.0, "mode": Mode.LOW}
    with gs.record() as calls:
        out = apply_bound_early(2 * ones(2), options)
        out.sum().backward()
    assert options == {"mode": Mode.LOW}, "the call itself works on the program's own objects"
    (call,) = calls
    assert (call.subject, call.name) == (Scale, f"{__name__}:Scale")
    assert (call.args[0].tolist(), call.args[1]) == ([2.0, 2.0], {"factor": 3.0, "mode": Mode.LOW})
    assert call.in_words == "float32[2]*, a dict"


def test_defaults_are_filled_in_for_setup_context():
    with gs.record() as calls:
        Full.apply(ones(2))
    assert next(iter(calls)).args[1] == 2.0


def test_three_calls_of_different_form_are_kept_small_ones_with_gradients_first():
    with gs.record() as calls:
        for size in (400, 300, 200, 50, 50, 10):
            Take.apply(ones(size), 1)
        Take.apply(torch.ones(2), 1)
    assert [len(call.args[0]) for call in calls] == [10, 50, 200]


def test_a_call_without_gradients_makes_room_for_one_with_them():
    with gs.record() as calls:
        for size in (1, 2, 3):
            Take.apply(torch.ones(size), 1)
        Take.apply(ones(9), 1)
    assert [(len(c.args[0]), c.differentiable) for c in calls] == [(9, True), (1, False), (2, False)]
    assert [c.args[0].requires_grad for c in calls] == [True] * 3, "a check needs something to differentiate in"


def test_a_hot_loop_is_recorded_a_few_times_only(monkeypatch):
    made = []
    monkeypatch.setattr("gradsmith.reach.inputs._record_recorder.dumps", lambda *a: made.append(a) or dumps(*a))
    with gs.record() as calls:
        for size in range(200, 1, -1):
            Take.apply(ones(size), size)
        for _ in range(50):
            Take.apply(ones(3), threading.Lock())
    assert len(calls) == 3
    assert len(made) <= _MOST_TRIES


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((i for i in range(3)), "argument 2, a generator, cannot be saved: TypeError"),
        (threading.Lock(), "argument 2, a lock, cannot be saved: TypeError"),
        (bytearray(100 << 20), "argument 2, a bytearray, cannot be saved: it holds more than 64 MB"),
        (torch.zeros(20 << 20), "its arguments hold 80 MB"),
    ],
    ids=["generator", "lock", "bytes", "tensor"],
)
def test_what_cannot_be_saved_is_told_with_the_reason(value, said):
    with gs.record() as calls:
        Take.apply(ones(2), value)
    assert len(calls) == 0
    assert said in calls.unsaved[f"{__name__}:Take"]
    assert said in repr(calls)
    assert [found.id for found in calls.ids()] == [f"{__name__}:Take"]


def test_a_call_that_fails_is_not_kept_and_its_error_is_the_programs():
    with gs.record() as calls, pytest.raises(KeyError, match="factor"):
        Scale.apply(ones(2), {})
    assert len(calls) == 0


def test_a_function_inside_of_another_is_recorded_as_well():
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return Scale.apply(x, {"factor": 2.0})

        @staticmethod
        def backward(ctx, grad):
            return Scale.apply(grad, {"factor": 2.0})

    with gs.record() as calls:
        Outer.apply(ones(2)).sum().backward()
    names = [call.name.rpartition(".")[2].rpartition(":")[2] for call in calls]
    assert set(names) == {"Outer", "Scale"}


def test_operators_with_a_registered_gradient_are_recorded_however_they_are_called():
    @torch.library.custom_op("gradsmith_record_test::weighted", mutates_args=())
    def weighted(xs: list[torch.Tensor], factor: float = 2.0, *, shift: int = 0) -> torch.Tensor:
        return xs[0] * factor + shift

    weighted.register_autograd(
        lambda ctx, grad: ([grad * ctx.factor], None),
        setup_context=lambda ctx, inputs, keyword_only_inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    with gs.record() as calls:
        weighted([ones(2)], 3.0)
        torch.ops.gradsmith_record_test.weighted([ones(3)], 4.0, shift=1)
    assert [(c.name, len(c.args[0][0]), c.args[1], c.kwargs) for c in calls] == [
        ("gradsmith_record_test::weighted", 2, 3.0, {}),
        ("gradsmith_record_test::weighted", 3, 4.0, {"shift": 1}),
    ]
    (report,) = calls.check(fast=True).values()
    assert not calls.unchecked
    assert report.to_dict()["subject"]["kind"] == "custom_op"


def test_declared_gradients_are_recorded_not_what_runs_inside_of_them():
    @gs.custom_gradient
    def half(x, factor=0.5, *, mode="a"):
        return x * factor

    @half.backward
    def _(grads, factor):
        return grads * factor

    call = type(half).__call__
    with gs.record() as calls:
        half(ones(2), mode="b").sum().backward()

        @gs.straight_through
        def made_inside(x):
            return torch.sign(x)

        made_inside(ones(3))
    assert type(half).__call__ is call, "what was put around it is taken away"
    assert [(c.name.rpartition(".")[2], c.kwargs) for c in calls] == [("half", {"mode": "b"}), ("made_inside", {})]
    assert [c.subject for c in calls] == [half, made_inside]


# --- the program does not notice ---------------------------------------------------------------------


def test_nothing_stays_behind():
    base = torch.autograd.Function.__mro__[1]
    with gs.record():
        with gs.record():
            assert "apply" in vars(base)
        assert "apply" in vars(base)
    assert "apply" not in vars(base)


def test_two_recorders_at_once_and_threads_each_get_their_calls():
    def work(size):
        Take.apply(ones(size), "thread").sum().backward()

    with gs.record() as outer:
        with gs.record() as inner:
            threads = [threading.Thread(target=work, args=(size,)) for size in (1, 2, 3)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        Scale.apply(ones(1), {"factor": 1.0})
    assert (len(inner), len(outer)) == (3, 4)


class Strange:
    """An object that is looked at in vain, and that runs a Function when it is pickled."""

    def __getattribute__(self, name):
        if name == "__class__":  # torch itself asks for it
            return Strange
        raise ZeroDivisionError(name)

    def __eq__(self, other):
        raise ZeroDivisionError

    __hash__ = None


class Busy:
    def __getstate__(self):
        Scale.apply(ones(1), {"factor": 1.0})
        return {}


def test_objects_that_misbehave_when_they_are_looked_at_cost_only_themselves():
    with gs.record() as calls:
        Take.apply(ones(2), Strange())
        Take.apply(ones(3), Busy())
    assert [len(call.args[0]) for call in calls] == [3]
    assert [call.name for call in calls] == [f"{__name__}:Take"], "what runs because a call is saved is none"


def test_random_numbers_warnings_and_modes_are_the_programs_own():
    class Listen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            heard.append(str(func))
            return func(*args, **(kwargs or {}))

    def run():
        torch.manual_seed(0)
        random.seed(0)
        heard.clear()
        with Listen(), warnings.catch_warnings():
            warnings.simplefilter("error")
            out = Take.apply(ones(2, 3).T * 2, torch.nn.Linear(2, 2), torch.ones(2).to_sparse()).sum()
        return out.item(), torch.rand(1).item(), random.random(), list(heard)

    heard = []
    expected = run()
    with gs.record() as calls:
        assert run() == expected
    assert len(calls) == 1


def test_transforms_and_compilation_give_the_same_and_record_no_tensors_of_theirs():
    torch._dynamo.reset()
    x = torch.arange(6.0).reshape(2, 3)
    with gs.record() as calls:
        assert torch.func.vmap(torch.func.grad(lambda row: Full.apply(row).sum()))(x).tolist() == [[2.0] * 3] * 2
        compiled = torch.compile(lambda t: Full.apply(t, 2.0) + 1, backend="aot_eager", fullgraph=True)
        assert compiled(x).tolist() == (2 * x + 1).tolist()
        torch.fx.experimental.proxy_tensor.make_fx(lambda t: Take.apply(t, 1))(x)
        Take.apply(torch.ones(2, device="meta"), 1)
    assert all(call.name.endswith((":Full", ":Take")) for call in calls)
    assert calls.unsaved == {}
    assert calls.check(fast=True, select=["GS1"]) is not None


def test_a_graph_that_breaks_at_a_function_runs_as_it_would():
    """torch.compile then tries its hand at every frame it meets, also at those around the call."""

    class Breaking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            torch._dynamo.graph_break()
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    torch._dynamo.reset()
    x = ones(3)
    compiled = torch.compile(lambda t: Breaking.apply(t + 1) * 2, backend="aot_eager")
    with gs.record() as calls, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled(x).sum().backward()
    assert not [w for w in said if "does not know how to trace" in str(w.message)]
    assert x.grad.tolist() == [4.0] * 3
    assert [call.args[0].tolist() for call in calls] == [[2.0] * 3]


def test_backward_in_place_and_inference_mode_still_work():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    with gs.record() as calls:
        x = ones(2)
        y = x * 1
        assert Twice.apply(y) is y
        y.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
        with torch.inference_mode():
            Take.apply(torch.ones(5), 1)
    assert [call.args[0].tolist() for call in calls] == [[1.0, 1.0], [1.0] * 5]
    assert not any(call.args[0].is_inference() for call in calls)


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

REPLAY = """
import inspect, sys, torch
from gradsmith.reach.inputs.record import load_calls
for call in load_calls(sys.argv[1]):
    subject = call.subject
    x = call.args[0]
    subject.apply(*call.args).sum().backward()
    assert subject._backward_cls._forward_cls is subject
    _, line = inspect.getsourcelines(subject.forward)
    print(call.name, x.grad[0, 0].item(), line, call.line, subject.__qualname__)
"""


def python(*words, cwd, **options):
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, **options)


def recorded(*words, cwd, **options):
    return python("-m", "gradsmith", "record", "--", *words, cwd=cwd, **options)


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


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
    assert [call.name for call in again] == [f"{__name__}:Scale"]
    assert again.unsaved == calls.unsaved
    assert again.command == calls.command
    assert calls.command.startswith("gradsmith.record() at test_record.py:")


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
    assert list(calls.unchecked) == [f"{__name__}:Take"]


# --- the command -------------------------------------------------------------------------------------

CLIP = """
import torch
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        return x * k
    @staticmethod
    def backward(ctx, grad):
        return grad, None
def call(size):
    return Clip.apply(torch.ones(size, requires_grad=True), size)
"""


@pytest.fixture
def package(tmp_path):
    written(tmp_path / "clipping" / "__init__.py", CLIP)
    return tmp_path


def sizes(folder):
    return [call.args[1] for call in load_calls(folder / ".gradsmith" / "calls")]


def test_input_output_and_exit_code_pass_through(package):
    code = """
    import sys, clipping
    clipping.call(2)
    print(sys.stdin.read().upper(), end="")
    print("to stderr", file=sys.stderr)
    sys.exit(7)
    """
    written(package / "go.py", code)
    run = recorded(sys.executable, "go.py", cwd=package, input="hello")
    assert (run.returncode, run.stdout) == (7, "HELLO")
    assert run.stderr.splitlines() == [
        "to stderr",
        "gradsmith: recorded 1 function, 1 call in .gradsmith/calls; next: gradsmith check clipping",
    ]


@pytest.mark.parametrize("way", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_what_was_called_before_a_process_dies_is_kept(package, way):
    run = recorded(sys.executable, "-c", f"import os, clipping; clipping.call(3); {way}", cwd=package)
    assert run.returncode == {"os._exit(0)": 0, "os.kill(os.getpid(), 9)": 137, "os.abort()": 134}[way]
    assert sizes(package) == [3]


def test_processes_of_processes_are_recorded(package):
    code = """
    import multiprocessing, subprocess, sys, clipping
    if __name__ == "__main__":
        for way, size in (("spawn", 1), ("fork", 2)):
            worker = multiprocessing.get_context(way).Process(target=clipping.call, args=(size,))
            worker.start()
            worker.join()
        subprocess.run(["sh", "-c", f"{sys.executable} -c 'import clipping; clipping.call(3)'"], check=True)
    """
    written(package / "go.py", code)
    run = recorded(sys.executable, "go.py", cwd=package)
    assert (run.returncode, sizes(package)) == (0, [1, 2, 3]), run.stderr


def test_tests_are_recorded_with_what_they_define_themselves(package):
    text = """
    import torch, clipping
    class Net(torch.nn.Module):
        def forward(self, x):
            return x
    def test_it():
        clipping.Clip.apply(torch.ones(2, requires_grad=True), 1.0)
        try:
            clipping.Clip.apply(torch.ones(2, requires_grad=True), Net())
        except TypeError:
            pass
        Mine.apply(torch.ones(2, requires_grad=True), Net())
    class Mine(clipping.Clip):
        @staticmethod
        def forward(ctx, x, net):
            return net(x) * 1
    """
    written(package / "tests" / "test_clip.py", text)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:gradsmith", "--import-mode=importlib", "tests"]
    run = recorded(sys.executable, *words, cwd=package, env={**os.environ, "PYTHONPATH": str(package)})
    assert run.returncode == 0, run.stdout + run.stderr
    again = python("-c", REPLAY.replace("[0, 0]", "[0]"), ".gradsmith/calls", cwd=package)
    assert [line.split()[0] for line in again.stdout.splitlines()] == ["clipping:Clip", "tests.test_clip:Mine"], again


def test_the_program_finds_its_own_sitecustomize_and_search_path(package):
    written(package / "own" / "sitecustomize.py", "import sys; sys.own = 'ran'")
    code = """import sys, sitecustomize
print(sys.own, [p for p in sys.path if '_record' in p], 'torch' in sys.modules, sitecustomize.__file__)"""
    environment = {**os.environ, "PYTHONPATH": str(package / "own")}
    run = recorded(sys.executable, "-c", code, cwd=package, env=environment)
    assert run.stdout.strip() == f"ran [] False {package / 'own' / 'sitecustomize.py'}"
    assert "nothing was recorded" in run.stderr


def test_ctrl_c_reaches_the_command_and_what_was_recorded_is_kept(package):
    code = """
    import time, clipping
    clipping.call(2)
    print("ready", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted")
        raise SystemExit(5)
    """
    written(package / "go.py", code)
    command = [sys.executable, "-m", "gradsmith", "record", "--", sys.executable, "go.py"]
    run = subprocess.Popen(
        command, cwd=package, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert (run.returncode, out, sizes(package)) == (5, "interrupted\n", [2])


def test_a_command_that_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["record", "--", "no-such-command"])
    assert result.exit_code == 127
    assert "there is no command 'no-such-command'" in result.output


def test_without_cloudpickle_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(UsageError, match=r"pip install 'gradsmith\[record\]'"), gs.record():
        pass
