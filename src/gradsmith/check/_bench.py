"""The bench a subject is run on: one forward and backward at a time, guarded, always with the same random numbers."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from gradsmith.check._compare import CHUNK, failure_of
from gradsmith.check._guard import Clock, GlobalState, OvertimeError, seed_everything
from gradsmith.check._observation import Failure, Observation
from gradsmith.check._sample import Sample, is_tiny
from gradsmith.check._subject import Subject
from gradsmith.declare._private import version_of
from gradsmith.declare._tree import Structure, flatten
from gradsmith.errors import DeclarationError

__all__ = ["Bench", "StopChecking", "Trial"]

SUPPORTED = (KeyboardInterrupt,)  # what the user's own Ctrl-C raises goes through


_OWN_STAGES = ("forward", "backward", "second backward")


class StopChecking(Exception):
    """No time is left."""


@dataclass
class Trial:
    """One call and, where it was asked for, its backward."""

    leaves: list[torch.Tensor] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the outputs
    structure: Structure = None
    tracked: list[int] = field(default_factory=list)  # outputs that have a gradient
    cotangents: list[torch.Tensor] = field(default_factory=list)  # one for each of those
    grads: list[torch.Tensor | None] = field(default_factory=list)  # one for each leaf
    overwritten: list[int] = field(default_factory=list)  # incoming gradients that backward wrote to; they are put back
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def forward_failed(self) -> bool:
        return self.failure is not None and self.failure["stage"] == "forward"

    @property
    def attached(self) -> list[torch.Tensor]:
        return [self.outputs[i] for i in self.tracked]

    @property
    def finite(self) -> bool:
        return all(bool(torch.isfinite(o).all()) for o in self.outputs if o.is_floating_point() or o.is_complex())


class Bench:
    """Runs a subject and writes down what is seen."""

    def __init__(
        self, subject: Subject, sample: Sample, *, seed: int, clock: Clock, thorough: bool, fast: bool
    ) -> None:
        self.subject = subject
        self.full = sample  # as the author passed it
        self.given = sample  # the same, or a part of it where it is large
        self.sample = sample  # in the precision the laws are tried in; set once that is known
        self.seed = seed
        self.clock = clock
        self.thorough = thorough
        self.fast = fast
        self.through_clones = False  # whether the forward writes to its inputs, as it announced
        self.noise = 0.0  # how much a gradient differs from run to run, relative to its largest element
        self.random = False  # whether the outputs depend on random numbers
        self.hangs = 0
        self.seen: list[Observation] = []
        self.changes: dict[str, tuple[str, str]] = {}
        self.durations: list[float] = []

    # --- writing down ------------------------------------------------------------------------------

    def see(self, law: str, sample: Sample | str = "as given", condition: str = "eager", **data: Any) -> None:
        name = sample if isinstance(sample, str) else sample.name
        self.seen.append(Observation(law, name, condition, data))

    def skip(self, what: str, why: str) -> None:
        self.see("skipped", what=what, why=why)

    def judged(self, sample: Sample) -> list[int]:
        """The inputs whose gradient is compared with the reference.

        What a callable declares of a module is said of its inputs; its parameters are then not judged.
        """
        intent = self.subject.intent
        if self.subject.parameters and intent is not None and not isinstance(intent, torch.nn.Module):
            return [i for i in sample.needed if sample.names[i] not in self.subject.parameters]
        return sample.needed

    # --- numbers -----------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        return self.sample.dtype

    @property
    def tight(self) -> float:
        """Relative difference allowed between two runs that must agree: the same maths in another order."""
        base = {torch.float64: 1e-9, torch.float32: 2e-4}.get(self.dtype, 3e-2)
        return base + 10 * self.noise

    @property
    def loose(self) -> float:
        """Relative difference allowed to a reference that computes the same in another way."""
        base = {torch.float64: 1e-6, torch.float32: 2e-3}.get(self.dtype, 1e-1)
        return base + 10 * self.noise

    def generator(self, key: str) -> torch.Generator:
        return torch.Generator().manual_seed((self.seed * 1_000_003 + zlib.crc32(key.encode())) % 2**63)

    def random_like(self, tensor: torch.Tensor, key: str) -> torch.Tensor:
        """Normal random numbers of the shape, dtype and device of a tensor, always the same for one key."""
        wide = torch.complex128 if tensor.is_complex() else torch.float64
        values = torch.randn(tensor.shape, dtype=wide, device="cpu", generator=self.generator(key))
        return values.to(device=tensor.device, dtype=tensor.dtype)

    def cotangents(self, outputs: Sequence[torch.Tensor], key: str = "g") -> list[torch.Tensor]:
        return [self.random_like(o, f"{key}{i}") for i, o in enumerate(outputs)]

    # --- running -----------------------------------------------------------------------------------

    @contextmanager
    def guarded(self, trial: Trial, stage: str) -> Iterator[None]:
        """Run the author's code: what it raises is written into the trial, what it changes is put back."""
        if self.clock.left <= 0 or self.hangs >= 2:
            raise StopChecking
        self.clock.let_others_ring()
        state, started = GlobalState(), time.monotonic()
        last = self.clock.left < self.clock.timeout / 10  # the time of the check ends before that of the call
        try:
            with self.clock.limit(self.clock.timeout / 10):
                yield
        except SUPPORTED:
            raise
        except StopChecking:
            raise
        except BaseException as error:  # noqa: BLE001 - the author's code may raise anything
            if isinstance(error, OvertimeError) and last:
                raise StopChecking from None
            trial.failure = failure_of(error, stage)
            if isinstance(error, SystemExit):
                self.see("exit", failure=trial.failure)
            if isinstance(error, OvertimeError) and stage in _OWN_STAGES:  # a transform may just be slow
                self.hangs += 1
                self.see("hang", stage=stage, seconds=time.monotonic() - started, failure=trial.failure)
        finally:
            self.durations.append(time.monotonic() - started)
            for name, (before, after) in state.changed().items():
                self.changes.setdefault(name, (before, after))

    def call(self, sample: Sample, tensors: Sequence[torch.Tensor], function: Callable[..., Any] | None = None) -> Any:
        """Call the subject, or another callable of its signature, with these tensors."""
        args, kwargs = sample.arguments(tensors)
        return (function or self.subject.call)(*args, **kwargs)

    def run(
        self,
        sample: Sample | None = None,
        *,
        needs: Sequence[bool] | None = None,
        cotangents: Sequence[torch.Tensor] | Callable[[list[torch.Tensor]], Sequence[torch.Tensor]] | None = None,
        use: Sequence[int] | None = None,
        backward: bool = True,
        create_graph: bool = False,
        keep: bool = False,
        leaves: Sequence[torch.Tensor] | None = None,
        function: Callable[..., Any] | None = None,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
        around_backward: Callable[[], AbstractContextManager[Any]] = nullcontext,
        seed: int | None = None,
    ) -> Trial:
        """One forward and backward.

        Args:
            sample: The inputs; by default those the laws are tried on.
            needs: Which tensors require grad, instead of those of the sample.
            cotangents: The incoming gradients of the outputs that have one, or what makes them; random by default.
            use: Which of the outputs that have a gradient take part; the others are unused.
            backward: Whether to run it.
            create_graph: Whether the gradients can be differentiated.
            keep: Whether the graph is kept for another backward.
            leaves: Tensors to call with as they are, instead of copies of those of the sample.
            function: Called instead of the subject.
            around: A context for the forward, `around_backward` one for the backward.
            seed: Of the random numbers; the same in every run unless given.
        """
        sample = sample or self.sample
        needs = sample.needs if needs is None else needs
        trial = Trial()
        trial.leaves = (
            list(leaves)
            if leaves is not None
            else [t.clone().requires_grad_(n) if n else t.clone() for t, n in zip(sample.tensors, needs, strict=True)]
        )
        seed_everything(self.seed if seed is None else seed)
        with self.guarded(trial, "forward"), around():
            passed = (
                [t.clone() if t.requires_grad else t for t in trial.leaves] if self.through_clones else trial.leaves
            )
            result = self.call(sample, passed, function)
            self._take(trial, result)
        if trial.ok and backward:
            self.backward(trial, cotangents, use, create_graph, keep, around_backward)
        return trial

    def _take(self, trial: Trial, result: Any) -> None:
        """Take the tensors out of whatever was returned."""
        outputs: list[torch.Tensor] = []
        try:
            trial.structure = flatten(result, outputs)
        except DeclarationError:
            outputs = [t for t in _anywhere(result) if isinstance(t, torch.Tensor)]
            trial.structure = ("=", None)
        trial.outputs = [o if o.requires_grad or not is_tiny(o.dtype) else o.float() for o in outputs]
        trial.names = ["output"] if len(outputs) == 1 else [f"output {i}" for i in range(len(outputs))]
        trial.tracked = [i for i, o in enumerate(outputs) if o.requires_grad]

    def backward(
        self,
        trial: Trial,
        cotangents: Any = None,
        use: Sequence[int] | None = None,
        create_graph: bool = False,
        keep: bool = False,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> bool:
        """The backward of a trial that has run forward; whether it ran."""
        attached = trial.attached
        trial.grads = [None] * len(trial.leaves)
        if cotangents is None:
            trial.cotangents = self.cotangents(attached)
        else:
            trial.cotangents = list(cotangents(attached) if callable(cotangents) else cotangents)
        kept = [] if create_graph else [g.clone() if g.numel() <= CHUNK else g for g in trial.cotangents]
        versions = [version_of(g) for g in trial.cotangents]
        chosen = range(len(attached)) if use is None else use
        wanted = [i for i, leaf in enumerate(trial.leaves) if leaf.requires_grad]
        if not wanted or not attached or not list(chosen):
            return True
        with self.guarded(trial, "backward"), around():
            grads = torch.autograd.grad(
                [attached[k] for k in chosen],
                [trial.leaves[i] for i in wanted],
                [trial.cotangents[k] for k in chosen],
                allow_unused=True,
                create_graph=create_graph,
                retain_graph=keep or create_graph,
            )
            for i, grad in zip(wanted, grads, strict=True):
                sparse = grad is not None and grad.layout is not torch.strided  # as that of an embedding may be
                trial.grads[i] = grad.to_dense() if sparse else grad
        if kept and [version_of(g) for g in trial.cotangents] != versions:
            # The backward wrote to them, and may have returned them: that is found once, and not by every law.
            trial.grads = [None if g is None else g.clone() for g in trial.grads]
            for place, (given, before) in enumerate(zip(trial.cotangents, kept, strict=True)):
                if not torch.equal(given.nan_to_num(), before.nan_to_num()):  # else a view was reshaped
                    trial.overwritten.append(place)
                    given.detach().copy_(before)
        return trial.ok

    def evaluate(self, sample: Sample, function: Callable[..., Any] | None = None) -> list[torch.Tensor] | None:
        """The outputs alone, without a graph; None where the forward raises."""
        trial = self.run(
            sample, needs=[False] * len(sample.tensors), backward=False, function=function, around=torch.no_grad
        )
        return trial.outputs if trial.ok else None


def _anywhere(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)) and depth < 5:
        for item in value:
            yield from _anywhere(item, depth + 1)
    else:
        yield value
