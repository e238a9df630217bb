"""State between calls: on the class, in the graph, in the random numbers, in the thread."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from gradsmith.check._bench import Bench, StopChecking, Trial
from gradsmith.check._compare import compare, failure_of
from gradsmith.check._guard import Clock, OvertimeError, RandomState, seed_everything
from gradsmith.check._observation import Comparison
from gradsmith.check._sample import Sample, is_float

__all__ = ["interleaved", "other_thread", "random_numbers", "twice"]


def _compared(bench: Bench, sample: Sample, got: Trial, expected: Trial) -> list[Comparison]:
    return [compare(sample.names[i], got.grads[i], expected.grads[i], relative=bench.tight) for i in sample.needed]


def _other_values(bench: Bench) -> Sample:
    """A second call that could go on at the same time."""
    sample = bench.sample
    return sample.with_tensors(
        "other values",
        [
            t.flatten().roll(1).reshape(t.shape)
            + 0.01 * bench.random_like(t, f"other{i}") * float(t.abs().double().mean())
            if is_float(t) and sample.needs[i] and t.numel()
            else t
            for i, t in enumerate(sample.tensors)
        ],
    )


def interleaved(bench: Bench) -> None:
    """Two calls whose backwards come in either order do not disturb each other."""
    sample, other = bench.sample, _other_values(bench)
    alone = [bench.run(sample), bench.run(other)]
    if not all(t.ok and t.finite for t in alone):
        return
    for order in ("the first call's backward first", "the last call's backward first"):
        first, second = bench.run(sample, backward=False), bench.run(other, backward=False)
        pairs = [(first, alone[0]), (second, alone[1])]
        if order.startswith("the last"):
            pairs.reverse()
        comparisons = []
        for trial, expected in pairs:
            bench.backward(trial, expected.cotangents)
            if not trial.ok:
                bench.see("interleaved", condition=order, failure=trial.failure)
                break
            comparisons += _compared(bench, sample, trial, expected)
        else:
            bench.see("interleaved", condition=order, comparisons=comparisons)
    again = bench.run(sample)
    if again.ok:
        bench.see("interleaved", condition="a call after others", comparisons=_compared(bench, sample, again, alone[0]))


def twice(bench: Bench) -> None:
    """A backward run again on a kept graph gives the same."""
    trial = bench.run(keep=True)
    if not trial.ok:
        return
    first = Trial(grads=[None if g is None else g.clone() for g in trial.grads])
    if not bench.backward(trial, keep=True):
        bench.see("twice", condition="retain_graph=True", failure=trial.failure)
        return
    bench.see("twice", condition="retain_graph=True", comparisons=_compared(bench, bench.sample, trial, first))


def random_numbers(bench: Bench) -> None:
    """Whether random numbers are drawn, in which step, and whether a generator is seeded anew."""
    states: list[list[dict[str, Any]]] = []
    for seed in (bench.seed + 1, bench.seed + 2):
        seed_everything(seed)
        start = RandomState().words()
        trial = bench.run(backward=False, seed=seed)
        middle = RandomState().words()
        bench.backward(trial)
        states.append([start, middle, RandomState().words()])
        if not trial.ok:
            return
    (start, middle, end), (_, _, other_end) = states
    bench.see(
        "random numbers",
        forward=start != middle,
        backward=middle != end,
        reseeds=[name for name, state in end.items() if state == other_end[name]],
    )


def other_thread(bench: Bench) -> None:
    """A backward in another thread than its forward, as on a GPU, and two threads at once."""
    base = bench.run()
    trial = bench.run(backward=False)
    if not (base.ok and trial.ok):
        return
    started = time.monotonic()
    if not _in_thread(lambda: _plain_backward(bench, trial, base), bench.clock):
        bench.hangs += 1
        failure = failure_of(OvertimeError(), "backward in another thread")
        bench.see("hang", stage=failure["stage"], seconds=time.monotonic() - started, failure=failure)
        return
    if trial.failure is not None:
        bench.see("thread", condition="backward in another thread", failure=trial.failure)
    else:
        bench.see(
            "thread", condition="backward in another thread", comparisons=_compared(bench, bench.sample, trial, base)
        )

    if bench.subject.parameters:  # each call puts copies of them into the one module there is
        bench.skip("two threads at once", "the parameters of a module are exchanged while it is checked")
    elif not bench.random:
        _two_threads(bench)


def _two_threads(bench: Bench) -> None:
    """Forward in two threads, then backward in both: each gets what it would get alone."""
    samples = [bench.sample, _other_values(bench)]
    alone = [bench.run(s) for s in samples]
    if not all(t.ok and t.finite for t in alone):
        return
    trials = [Trial(), Trial()]
    met = threading.Barrier(2, timeout=max(min(bench.clock.timeout / 10, bench.clock.left), 0.1))

    def work(k: int) -> None:
        trials[k] = bench.run(samples[k], backward=False)
        with contextlib.suppress(threading.BrokenBarrierError):
            met.wait()
        if trials[k].ok:
            bench.backward(trials[k], alone[k].cotangents)

    threads = [threading.Thread(target=_quietly, args=(lambda k=k: work(k),), daemon=True) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(min(bench.clock.timeout / 5, bench.clock.left), 0.0) + 1)
    if any(t.forward_failed for t in trials):
        return  # a forward that needs its own thread says so
    condition = "two threads at once"
    failure = next((t.failure for t in trials if t.failure is not None), None)
    if failure is not None:
        bench.see("thread", condition=condition, failure=failure)
    elif all(len(t.grads) == len(bench.sample.tensors) for t in trials):
        comparisons = [c for t, a in zip(trials, alone, strict=True) for c in _compared(bench, bench.sample, t, a)]
        bench.see("thread", condition=condition, comparisons=comparisons)


def _quietly(work: Any) -> None:
    with contextlib.suppress(StopChecking):
        work()


def _plain_backward(bench: Bench, trial: Trial, base: Trial) -> None:
    bench.backward(trial, base.cotangents)


def _in_thread(work: Any, clock: Clock) -> bool:
    """Whether it came back; where it sleeps for ever, the thread cannot be ended and is left behind."""
    thread = threading.Thread(target=_quietly, args=(work,), daemon=True)
    thread.start()
    thread.join(max(min(clock.timeout / 10, clock.left), 0.0) + 1)
    return not thread.is_alive()
