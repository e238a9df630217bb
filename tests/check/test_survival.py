"""The checked code may do anything: check survives, puts the process back, says so and ends in time."""

import gc
import os
import random
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradsmith as gs
from gradsmith.check._globals import GlobalState, ProcessState
from gradsmith.declare._private import forward_mode_kept

Hook = Callable[[Any], Any]


def square(forward: Hook | None = None, backward: Hook | None = None, factor: float = 2.0) -> type:
    """A right square, or one whose steps do something first; what they return, if not None, is returned instead."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            got = forward(x) if forward else None
            return x * x if got is None else got

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            got = backward(grad) if backward else None
            return factor * x * grad if got is None else got

    return Square


def inputs() -> torch.Tensor:
    return torch.tensor([0.5, 1.2, -2.0], requires_grad=True)


def run(subject: Any, given: Any = None, **options: Any) -> gs.Report:
    report = gs.check(subject, inputs() if given is None else given, fast=True, **options)
    assert str(report)
    assert report.to_json()
    assert report.to_html()
    return report


def rules(report: gs.Report) -> set[str]:
    return {finding.rule for finding in report.findings}


def raising(error: BaseException) -> Hook:
    def hook(_: Any) -> None:
        raise error

    return hook


# --- exceptions ---------------------------------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


class NotText(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class Fundamental(BaseException):
    pass


ERRORS = [
    Unprintable(),
    NotText(),
    Fundamental("x"),
    StopIteration(3),
    GeneratorExit(),
    RecursionError("deep"),
    MemoryError(),
    ExceptionGroup("several", [ValueError("x")]),
    Exception("line\n" * 100_000),
    Exception("\x1b[31m \ud800"),
    gs.UsageError("the author's own"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_whatever_is_raised_is_reported(error):
    assert rules(run(square(forward=raising(error)))) == {"GS302"}
    assert rules(run(square(backward=raising(error)))) == {"GS301"}


def test_sys_exit_is_a_finding():
    assert rules(run(square(forward=lambda _: sys.exit(3)))) == {"GS809"}
    assert rules(run(square(backward=lambda _: sys.exit(3)))) == {"GS809"}


def test_ctrl_c_goes_through_and_the_state_is_put_back():
    def interrupted(_: Any) -> None:
        torch.set_default_dtype(torch.float64)
        raise KeyboardInterrupt

    stdout = sys.stdout
    with pytest.raises(KeyboardInterrupt):
        run(square(backward=interrupted))
    assert torch.get_default_dtype() == torch.float32
    assert sys.stdout is stdout


def test_endless_recursion():
    def dig(n: Any) -> Any:
        return dig(n)

    assert rules(run(square(forward=dig))) == {"GS302"}


def test_an_error_in_a_thread_of_the_subject(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def spawn(_: Any) -> None:
        thread = threading.Thread(target=raising(ValueError("in a thread")), args=(None,))
        thread.start()
        thread.join()

    assert run(square(forward=spawn)).ok


# --- what is returned ---------------------------------------------------------------------------------

NONSENSE = ["text", 3, {"a": 1}, object(), (), float, b"x", (i for i in range(3)), (torch.ones(3),) * 2]


@pytest.mark.parametrize("value", NONSENSE, ids=lambda v: type(v).__name__)
def test_nonsense_is_reported(value):
    assert rules(run(square(backward=lambda _: value))) == {"GS301"}
    if not isinstance(value, tuple) or not value:
        assert rules(run(square(forward=lambda _: value))) == {"GS311"}


@pytest.mark.parametrize(
    ("value", "rule"),
    [(float("nan"), "GS701"), (float("inf"), "GS701"), (1.0, "GS201")],
)
def test_constant_gradients(value, rule):
    assert rule in rules(run(square(backward=lambda g: torch.full_like(g, value))))


def test_a_sparse_gradient_is_compared_like_a_dense_one():
    def sparse(factor: float) -> type:
        class Pick(torch.autograd.Function):
            @staticmethod
            def forward(ctx, table):
                return table[1] * 1

            @staticmethod
            def backward(ctx, grad):
                return torch.sparse_coo_tensor(torch.tensor([[1]]), factor * grad[None], (4, 2))

        return Pick

    table = torch.randn(4, 2, requires_grad=True)
    report = run(sparse(1.0), table)
    assert not rules(report) & {"GS101", "GS302", "GS301"}
    assert "GS101" in rules(run(sparse(2.0), table))


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda x: x.to_sparse(), "sparse_coo"),
        (lambda x: x.to("meta"), "no data"),
        (lambda x: x.to(torch.float8_e5m2), "float8"),
    ],
)
def test_outputs_that_cannot_be_compared_are_refused(convert, words):
    with pytest.raises(gs.UsageError, match=words):
        run(lambda x: convert(x * x))


def test_an_output_in_eight_bits_beside_a_right_one():
    class Quantise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            small = x.to(torch.float8_e4m3fn)
            ctx.mark_non_differentiable(small)
            return small, 3 * x

        @staticmethod
        def backward(ctx, _, grad):
            return 3 * grad

    assert run(Quantise).ok


# --- noise --------------------------------------------------------------------------------------------


def test_what_is_printed_is_counted_and_not_shown(capsys):
    def loud(_: Any) -> None:
        sys.stdout.write("line\n" * 10_000)
        sys.stderr.write("x" * 100_000)
        warnings.warn("be careful", UserWarning, stacklevel=1)

    report = run(square(forward=loud, backward=loud))
    assert report.ok
    assert report.noise["printed"] > 100_000
    assert report.noise["warnings"] == ["UserWarning: be careful"]
    assert capsys.readouterr() == ("", "")


def test_warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(square(forward=lambda _: warnings.warn("hm", stacklevel=1))).ok


# --- time ---------------------------------------------------------------------------------------------


def stubborn(_: Any) -> None:
    while True:
        try:  # noqa: SIM105
            sum(range(100))
        except Exception:
            pass


def deaf(_: Any) -> None:
    while True:
        try:  # noqa: SIM105
            time.sleep(0.01)
        except:  # noqa: E722
            pass


def asleep(_: Any) -> None:
    time.sleep(1000)


def locked(_: Any) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def waiting(_: Any) -> None:
    threading.Event().wait()


@pytest.mark.parametrize("hang", [stubborn, deaf, asleep, locked, waiting], ids=lambda f: f.__name__)
def test_what_hangs_is_ended_and_reported(hang):
    started, tracing = time.monotonic(), sys.gettrace()
    assert rules(run(square(backward=hang), timeout=2)) == {"GS808"}
    assert sys.gettrace() is tracing
    assert time.monotonic() - started < 5
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert sys.exc_info() == (None, None, None)


def test_a_hang_in_the_other_thread_alone():
    main = threading.main_thread()
    report = run(
        square(backward=lambda _: None if threading.current_thread() is main else time.sleep(1000)), timeout=10
    )
    assert rules(report) == {"GS808"}


def test_a_loop_in_a_thread_that_is_not_the_main_one():
    found: list[gs.Report] = []
    thread = threading.Thread(target=lambda: found.append(run(square(forward=stubborn), timeout=2)))
    thread.start()
    thread.join(10)
    assert rules(found[0]) == {"GS808"}


def test_attributes_that_hang():
    class Sleepy:
        def __getattr__(self, name: str) -> Any:
            time.sleep(1000)

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    with pytest.raises(gs.UsageError, match="did not come back"):
        run(Sleepy(), timeout=2)


def test_alarms_of_others_ring():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    mine = signal.getsignal(signal.SIGALRM)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert run(square()).ok
        assert len(rung) == 1
        assert signal.getsignal(signal.SIGALRM) is mine
        signal.setitimer(signal.ITIMER_REAL, 100)
        assert run(square()).ok
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] < 100
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_alarm_that_the_subject_sets_is_taken_away():
    def alarm(_: Any) -> None:
        signal.alarm(100)

    assert run(square(backward=alarm)).ok
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


# --- global state -------------------------------------------------------------------------------------


def replace_stdout(_: Any) -> None:
    sys.stdout = None


CHANGES: dict[str, Hook] = {
    "default dtype": lambda _: torch.set_default_dtype(torch.float64),
    "grad mode": lambda _: torch.no_grad().__enter__(),
    "deterministic algorithms": lambda _: torch.use_deterministic_algorithms(True, warn_only=True),
    "number of threads": lambda _: torch.set_num_threads(2),
    "CPU autocast": lambda _: torch.set_autocast_enabled("cpu", True),
    "anomaly mode": lambda _: torch.autograd.set_detect_anomaly(True),
    "float32 matmul precision": lambda _: torch.set_float32_matmul_precision("medium"),
    "default device": lambda _: torch.set_default_device("meta"),
    "working directory": lambda _: os.chdir("/"),
    "recursion limit": lambda _: sys.setrecursionlimit(sys.getrecursionlimit() + 500),
    "garbage collector": lambda _: gc.disable(),
    "sys.stdout": replace_stdout,
    "environment variables": lambda _: os.environ.update(GRADSMITH_TEST="1"),
    "signal handlers": lambda _: signal.signal(signal.SIGTERM, signal.SIG_IGN) and None,
    "sys.path": lambda _: sys.path.insert(0, "/nowhere"),
    "flushing of denormal numbers": lambda _: torch.set_flush_denormal(True) and None,
    "thread switch interval": lambda _: sys.setswitchinterval(0.1),
    "profile function": lambda _: sys.setprofile(lambda *_: None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_settings_are_put_back_and_reported(name):
    def change(x: Any) -> None:
        CHANGES[name](x)

    state, process = GlobalState(), ProcessState()
    report = run(square(forward=change))
    assert {**state.changed(), **process.changed()} == {}
    assert "GS805" in rules(report)
    found = next(f for f in report.findings if f.rule == "GS805")
    assert any(line.startswith(f"{name}: ") for line in found.evidence)


def test_a_device_that_was_entered_is_left():
    assert "GS805" in rules(run(square(forward=lambda _: torch.device("meta").__enter__() and None)))
    assert torch.ones(1).device.type == "cpu"
    with torch.device("meta"):
        assert torch.ones(1).device.type == "meta"
    assert torch.ones(1).device.type == "cpu"


def test_inference_mode_that_stays_on():
    held = []

    def enter(_: Any) -> None:
        held.append(torch.inference_mode())
        held[-1].__enter__()

    with forward_mode_kept():
        assert "GS805" in rules(run(square(forward=enter)))
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        held.clear()  # each puts back what it found, which in a forward is no_grad and no forward mode
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("seed", [torch.manual_seed, random.seed])
def test_random_numbers_go_on_as_before(seed):
    torch.manual_seed(7)
    random.seed(7)
    expected = torch.rand(1), random.random()
    torch.manual_seed(7)
    random.seed(7)
    assert rules(run(square(forward=lambda _: seed(3) and None))) == {"GS806"}
    assert (torch.rand(1), random.random()) == expected


# --- where check is called ----------------------------------------------------------------------------

AROUND: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "meta device": lambda: torch.device("meta"),
    "saved on cpu": torch.autograd.graph.save_on_cpu,
}


@pytest.mark.parametrize("name", AROUND)
def test_called_within(name):
    given = inputs()
    with AROUND[name]():
        before = GlobalState()
        right, wrong = run(square(), given), run(square(factor=3.0), given)
        assert before.changed() == {}
    assert right.ok
    assert "GS101" in rules(wrong)


def test_called_with_another_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert run(square()).ok
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_called_within_a_backward_and_another_check():
    reports = []

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            if not reports:
                reports.append(run(square(factor=3.0)))
            return grad

    assert run(Nested).ok
    assert "GS101" in rules(reports[0])


def test_checks_in_several_threads_wait_for_each_other():
    found: dict[int, set[str]] = {}

    def work(k: int) -> None:
        found[k] = rules(run(square(factor=2.0 + k)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == set()
    assert "GS101" in found[1]


# --- what belongs to the caller -----------------------------------------------------------------------


def test_inputs_and_graph_are_left_alone():
    x = inputs()
    x.grad = torch.full((3,), 9.0)
    y = x * 2
    loss = y.sum()

    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            y.detach().mul_(0)
            return y * 2

        @staticmethod
        def backward(ctx, grad):
            grad.mul_(2)
            return grad

    assert not run(Writes, y).ok
    assert y.tolist() == pytest.approx([1.0, 2.4, -4.0])
    assert y.requires_grad
    assert y.grad_fn is not None
    loss.backward()
    assert x.grad.tolist() == [11.0, 11.0, 11.0]


def test_nothing_stays_alive():
    given = inputs()
    subject = square()
    alive = weakref.ref(given), weakref.ref(subject)
    reports = [gs.check(subject, given, fast=True) for _ in range(3)]
    del given, subject
    gc.collect()
    assert all(reports)
    assert [ref() for ref in alive] == [None, None]


def test_memory_does_not_grow():
    subject, given = square(), inputs()

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    for _ in range(2):
        gs.check(subject, given, fast=True)
    before = objects()
    for _ in range(6):
        gs.check(subject, given, fast=True)
    assert objects() - before < 200
