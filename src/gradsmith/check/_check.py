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
from gradsmith.check._neighbours import neighbours
from gradsmith.check._observation import Observation, Observations
from gradsmith.check._reference import Reference
from gradsmith.check._refuse import looking, refuse_options, refuse_undifferentiable, refuse_unjudged
from gradsmith.check._report import Report
from gradsmith.check._sample import Sample, sample_of
from gradsmith.check._source import source_observation
from gradsmith.check._subject import Subject
from gradsmith.check.probes import (
    higher,
    incoming,
    lifetime,
    numerics,
    pictures,
    registered,
    state,
    structure,
    transforms,
)
from gradsmith.check.probes.first import LARGE, first_call, repeats
from gradsmith.check.probes.value import Judge
from gradsmith.declare._private import transforms_active
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
    with one_at_a_time(timeout), torch.inference_mode(False), quiet() as noise:
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
            steps = _steps(bench, reference)
            for done, (what, step) in enumerate(steps):
                if progress is not None:
                    progress(done, len(steps), what)
                before = len(bench.seen)
                try:
                    step()
                except _UNFORESEEN as error:  # what the author's code returned was not foreseen
                    bench.skip(what, f"it could not be tried: {type(error).__name__}: {text_of(error)}".splitlines()[0])
                count = sum(o.law not in ("skipped", "tried") for o in bench.seen[before:])
                if count:
                    bench.see("tried", what=what, count=count)
            if progress is not None:
                progress(len(steps), len(steps), "done")
    except StopChecking:
        bench.skip("what remained", f"the time limit of {bench.clock.timeout:g} s was reached; raise it with timeout=")


def _steps(bench: Bench, reference_function: Callable[..., Any] | None) -> list[tuple[str, Callable[[], Any]]]:
    """What is tried, in order: cheap and telling first."""
    reference = Reference(bench)
    judge = Judge(bench, reference)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("the same call again", lambda: repeats(bench)),
        ("random numbers", lambda: state.random_numbers(bench)),
    ]
    if bench.full.size > LARGE:
        steps.append(("the gradient at full size", lambda: judge(bench.full)))
    steps += [
        ("the gradient as given", lambda: judge(bench.sample)),
        ("values, sizes, dimensions and options nearby", lambda: _nearby(bench, judge)),
        ("linearity in the incoming gradient", lambda: incoming.linearity(bench)),
        ("layout of the incoming gradient", lambda: incoming.layout(bench)),
        ("layout of the inputs", lambda: incoming.input_layout(bench)),
        ("nothing is written to", lambda: incoming.mutation(bench)),
        ("what backward returns", lambda: structure.raw_returns(bench)),
        ("which inputs need a gradient", lambda: structure.subsets(bench)),
        ("which outputs are used", lambda: structure.unused_outputs(bench)),
        ("one tensor in two places", lambda: structure.same_tensor_twice(bench)),
        ("captured tensors", lambda: structure.captured(bench)),
        ("tensors kept on ctx", lambda: lifetime.context(bench)),
        ("memory after a call", lambda: lifetime.leak(bench)),
        ("saved tensors and hooks", lambda: lifetime.saved(bench)),
        ("checkpoint", lambda: lifetime.checkpointing(bench)),
        ("calls that overlap", lambda: state.interleaved(bench)),
        ("the backward again", lambda: state.twice(bench)),
        ("another thread", lambda: state.other_thread(bench)),
        ("double backward", lambda: higher.double_backward(bench, reference)),
        ("forward mode", lambda: higher.forward_mode(bench)),
        ("the given precision", lambda: numerics.given_precision(bench)),
        ("large and tiny numbers", lambda: numerics.finite(bench, reference)),
        ("low precision", lambda: numerics.low_precision(bench, reference)),
        ("autocast", lambda: numerics.autocast(bench)),
        ("torch.func and torch.compile", lambda: _transforms(bench)),
        ("torch.library", lambda: registered.registration(bench)),
        ("pictures", lambda: pictures.draw(bench, reference)),
    ]
    if reference.kind == "declared":
        steps.insert(2, ("the declared function", lambda: numerics.declared(bench, reference)))
    if reference_function is not None:
        steps.insert(2, ("the reference forward", lambda: numerics.reference_forward(bench, reference_function)))
    return steps


def _nearby(bench: Bench, judge: Judge) -> None:
    """Judge the neighbours the forward accepts."""
    most = 200 if bench.thorough else 12 if bench.fast else 60
    used: dict[str, int] = {}
    tried = 0
    base = judge.largest
    for neighbour in neighbours(bench):
        if bench.fast and used.get(neighbour.kind, 0) >= 2:
            continue
        if tried >= most * 3 or sum(used.values()) >= most:
            break
        tried += 1
        law = "neighbour"
        verdict = judge(neighbour.sample, law=law, floor=neighbour.floor * 1e-7 * base, kind=neighbour.kind)
        if verdict is not None:
            used[neighbour.kind] = used.get(neighbour.kind, 0) + 1
        bench.see(
            "sample",
            neighbour.sample,
            name=neighbour.sample.name,
            inputs=neighbour.sample.described(),
            used=verdict is not None,
            why="" if verdict is not None else "the forward does not take it",
        )


def _transforms(bench: Bench) -> None:
    right = transforms.functional(bench)
    if right:
        transforms.second_functional(bench)
    transforms.batched(bench)
    transforms.grads_batched(bench)
    if bench.fast:
        bench.skip("torch.compile", "left out by fast")
    elif bench.random:
        bench.skip("torch.compile", "compiled code draws other random numbers than eager code")
    else:
        transforms.compiled(bench, right)


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
