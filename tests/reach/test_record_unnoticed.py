"""A program that is recorded does not notice."""

import random
import threading
import warnings

import torch

import gradsmith as gs
from tests.reach.recording import Full, Scale, Take, ones

HOME = Take.__module__


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
    assert [call.name for call in calls] == [f"{HOME}:Take"], "what runs because a call is saved is none"


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
