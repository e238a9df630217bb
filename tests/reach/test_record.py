"""Recording: what is kept of a call."""

import threading

import pytest
import torch

import gradsmith as gs
from gradsmith.reach.inputs.record._pickle import dumps
from gradsmith.reach.inputs.record._recorder import _MOST_TRIES
from tests.reach.recording import Full, Mode, Scale, Take, ones

HOME = Take.__module__

apply_bound_early = Scale.apply


def test_arguments_are_those_before_the_call():
    options = {"factor": 3.0, "mode": Mode.LOW}
    with gs.record() as calls:
        out = apply_bound_early(2 * ones(2), options)
        out.sum().backward()
    assert options == {"mode": Mode.LOW}, "the call itself works on the program's own objects"
    (call,) = calls
    assert (call.subject, call.name) == (Scale, f"{HOME}:Scale")
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
    monkeypatch.setattr("gradsmith.reach.inputs.record._recorder.dumps", lambda *a: made.append(a) or dumps(*a))
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
    assert said in calls.unsaved[f"{HOME}:Take"]
    assert said in repr(calls)
    assert [found.id for found in calls.ids()] == [f"{HOME}:Take"]


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
