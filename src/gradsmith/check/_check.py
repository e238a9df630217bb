"""`check`: run every probe, give what was seen to every rule, return the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradsmith.check._bench import Bench, StopChecking
from gradsmith.check._findings import find, require_codes
from gradsmith.check._guard import Clock, one_at_a_time, plain_surroundings, quiet, text_of
from gradsmith.check._observation import Observation, Observations
from gradsmith.check._refuse import looking, refuse_options, refuse_undifferentiable, refuse_unjudged
from gradsmith.check._sample import Sample, sample_of
from gradsmith.check._steps import steps
from gradsmith.check._subject import Subject
from gradsmith.check.probes.first import LARGE, first_call
from gradsmith.check.report._report import Report
from gradsmith.check.source._source import source_observation
from gradsmith.declare._private import forward_mode_kept, transforms_active
from gradsmith.errors import UsageError

__all__ = ["check", "observe"]

Progress = Callable[[int, int, str], None]
_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def check(
    subject: Any,
    inputs: Any,
    *,
    kwargs: dict[str, Any] | None = None,
    gradient_of: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    waive: Iterable[str] = (),
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    fast: bool = False,
    thorough: bool = False,
    device: str | torch.device | None = None,
    seed: int = 0,
    timeout: float = 60.0,
    progress: Progress | None = None,
) -> Report:
    """Judge one custom gradient and say what is wrong with it.

    The subject is run on the inputs given and on neighbours of them (other sizes, values, layouts, precisions), under
    every transform, and compared with the derivative it should have: that of `gradient_of` where it is given, else that
    of its own forward. Laws that need no derivative (linearity, layout, no mutation, same result twice ...) are checked
    whatever the gradient is meant to be.

    Args:
        subject: an `autograd.Function` class (or its `apply`), a gradient declared with gradsmith, a
            `torch.library.custom_op`, an `nn.Module` or any callable.
        inputs: the tensor or the tuple of arguments it is called with; at least one floating-point tensor requires
            grad. Any dtype; where the subject can do it, laws are checked in float64. Nothing is written to them.
        kwargs: keyword arguments of the call.
        gradient_of: for a gradient that is meant to differ from the derivative of the forward: the callable whose
            derivative it is, taking the arguments of the subject or the first of them. A declared gradient carries it.
        reference: a trusted forward to compare the outputs with.
        waive: rule codes, or names of laws: "linearity" (the backward clips or normalises), "derivative" (the gradient
            is the derivative of no function).
        select: rule codes, or their beginnings, that are reported; all by default.
        ignore: rule codes, or their beginnings, that are not.
        fast: leave out torch.compile and most neighbours.
        thorough: try more of them.
        device: where to run; where the inputs are by default.
        seed: of every random number.
        timeout: seconds the whole check may take.
        progress: called with the steps done, the steps in all, and what comes next.

    Returns:
        The report: `ok`, `findings`, `str(report)`, `to_json()`, `to_html()`, `raise_if_failed()`.

    Raises:
        UsageError: the subject cannot be called, the inputs hold nothing differentiable, a rule does not exist.

    Example:
        >>> import torch, gradsmith as gs
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 3 * grad
        >>> report = gs.check(Double, torch.ones(3, requires_grad=True), fast=True)
        >>> [finding.rule for finding in report.findings]
        ['GS101']
    """
    started = time.monotonic()
    refuse_options(fast=fast, thorough=thorough, timeout=timeout, seed=seed, progress=progress)
    require_codes(waive=waive, select=select, ignore=ignore)
    observations = observe(
        subject,
        inputs,
        kwargs=kwargs,
        gradient_of=gradient_of,
        reference=reference,
        fast=fast,
        thorough=thorough,
        device=device,
        seed=seed,
        timeout=float(timeout),
        progress=progress,
    )
    refuse_unjudged(observations, float(timeout))
    refuse_undifferentiable(observations)
    findings = find(observations, waive=waive, select=select, ignore=ignore)
    observations.items.append(Observation("seconds", data={"seconds": time.monotonic() - started}))
    return Report(observations, findings)


def observe(
    subject: Any,
    inputs: Any,
    *,
    kwargs: dict[str, Any] | None = None,
    gradient_of: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    fast: bool = False,
    thorough: bool = False,
    device: str | torch.device | None = None,
    seed: int = 0,
    timeout: float = 60.0,
    progress: Progress | None = None,
) -> Observations:
    """Run the probes and return what they saw, as plain data. The arguments are those of `check`."""
    for name, value in (("gradient_of", gradient_of), ("reference", reference)):
        if value is not None and not callable(value):
            raise UsageError(f"{name}: got {value!r}; expected a callable that takes the arguments of the subject")
    if transforms_active():
        raise UsageError("check: it was called inside of a torch.func transform or of forward mode; call it outside")
    with forward_mode_kept(), one_at_a_time(timeout), torch.inference_mode(False), quiet() as noise:
        clock = Clock(timeout)
        with looking("subject", clock):
            judged = Subject(subject, gradient_of)
        sample = sample_of(judged, inputs, kwargs, device)
        bench = Bench(judged, sample, seed=seed, clock=clock, thorough=thorough, fast=fast)
        with looking("subject", clock):
            bench.seen.append(source_observation(judged.written))
        with _one_thread(sample), plain_surroundings(sample.tensors[0].device):
            _probe(bench, reference, progress)
    bench.changes = {**noise.changes, **bench.changes}
    _describe(bench, noise.printed, noise.warnings)
    return Observations(bench.seen)


@contextmanager
def _one_thread(sample: Sample) -> Iterator[None]:
    """Small tensors are faster on one thread."""
    before = torch.get_num_threads()
    if sample.size <= LARGE:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _probe(bench: Bench, reference: Callable[..., Any] | None, progress: Progress | None) -> None:
    try:
        with torch.enable_grad():
            if not first_call(bench):
                return
            todo = steps(bench, reference)
            for done, (what, step) in enumerate(todo):
                if progress is not None:
                    progress(done, len(todo), what)
                before = len(bench.seen)
                try:
                    step()
                except _UNFORESEEN as error:  # what the author's code returned was not foreseen
                    bench.skip(what, f"it could not be tried: {type(error).__name__}: {text_of(error)}".splitlines()[0])
                count = sum(o.law not in ("skipped", "tried") for o in bench.seen[before:])
                if count:
                    bench.see("tried", what=what, count=count)
            if progress is not None:
                progress(len(todo), len(todo), "done")
    except StopChecking:
        bench.skip("what remained", f"the time limit of {bench.clock.timeout:g} s was reached; raise it with timeout=")


def _describe(bench: Bench, printed: int, warnings: Sequence[str]) -> None:
    subject, given = bench.subject, bench.full
    source = next((o.data for o in bench.seen if o.law == "source"), {})
    kinds = {"declared": "the declared derivative"}
    bench.see(
        "subject",
        name=subject.name,
        kind=subject.kind,
        file=source.get("file", ""),
        line=next((u["line"] for u in source.get("units", [])), 0),
        inputs=given.described(),
        arguments={},
        reference=kinds.get("declared" if subject.intent else "", "the derivative of the forward"),
        torch=torch.__version__,
        seed=bench.seed,
        device=given.tensors[given.needed[0]].device.type,
        dtype=str(bench.sample.dtype).removeprefix("torch."),
    )
    if bench.changes:
        bench.see("global state", changes={k: list(v) for k, v in bench.changes.items()})
    bench.see("noise", printed=printed, warnings=list(warnings))
