"""Samples near the author's: other sizes, other numbers of dimensions, other values, other options.

A neighbour is only a proposal: where the forward raises or is not finite, nothing is said about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gradsmith.check._bench import Bench
from gradsmith.check._options import other_options, with_number
from gradsmith.check._sample import Sample, is_float, is_symmetric
from gradsmith.check.source._source import source_text

__all__ = ["Neighbour", "neighbours", "shrunk"]

Position = tuple[int, int]  # tensor, dimension


@dataclass(frozen=True)
class Neighbour:
    """A sample and in which way it differs: "size", "empty", "unequal sizes", "ndim", "values", "index", "options"."""

    kind: str
    sample: Sample
    floor: float = 0.0  # absolute difference to allow, as a share of the base gradient


def neighbours(bench: Bench) -> Iterator[Neighbour]:
    """Symmetric matrices stay symmetric: what a function is of others it need not say."""
    symmetric = [i for i, t in enumerate(bench.sample.tensors) if is_symmetric(t)]
    for neighbour in _all(bench):
        tensors = list(neighbour.sample.tensors)
        for i in symmetric:
            t = tensors[i]
            if t.dim() > 1 and t.shape[-1] == t.shape[-2]:
                tensors[i] = (t + t.mT) / 2
        if all(tensors[i].dim() > 1 and tensors[i].shape[-1] == tensors[i].shape[-2] for i in symmetric):
            yield replace(neighbour, sample=neighbour.sample.with_tensors(neighbour.sample.name, tensors))


def _all(bench: Bench) -> Iterator[Neighbour]:
    yield from _values(bench)
    if bench.subject.kind == "custom_op" and any(not is_float(t) for t in bench.sample.tensors):
        bench.skip("other sizes", "a kernel need not look whether what the integers point to is there")
        return
    yield from _sizes(bench)
    yield from _unequal(bench)
    yield from _dimensions(bench)
    yield from _indices(bench)
    for sample in other_options(bench):
        yield Neighbour("options", sample)


# --- values ---------------------------------------------------------------------------------------


def _values(bench: Bench) -> Iterator[Neighbour]:
    sample = bench.sample

    def moved(name: str, change: Any) -> Sample:
        return sample.with_tensors(
            name,
            [
                change(t, i) if sample.needs[i] and t.numel() and i >= sample.fixed else t
                for i, t in enumerate(sample.tensors)
            ],
        )

    def mixed(t: torch.Tensor, i: int) -> torch.Tensor:
        order = torch.randperm(t.numel(), device="cpu", generator=bench.generator(f"mix{i}")).to(t.device)
        return t.reshape(-1)[order].reshape(t.shape) + _jitter(bench, t, f"mix{i}")

    yield Neighbour("values", moved("values in another order", mixed))
    for k in range(5 if bench.thorough else 0):
        tensors = [
            t.abs().mean() * bench.random_like(t, f"drawn{k}.{i}") if sample.needs[i] and i >= sample.fixed else t
            for i, t in enumerate(sample.tensors)
        ]
        yield Neighbour("values", sample.with_tensors(f"drawn at random ({k + 1})", tensors))
    yield Neighbour("values", moved("negated", lambda t, i: -t + _jitter(bench, t, f"neg{i}")))
    for factor in (3.0, 20.0, 0.03, 1e-3) if len(sample.needed) > 1 else (3.0, 20.0, 300.0, 0.03, 1e-3):
        yield Neighbour("values", scaled(bench, sample, factor), 1.0 if factor > 1 else 0.0)
    chosen = [i for i in sample.needed if i >= sample.fixed]
    for i in chosen if len(chosen) > 1 else []:
        yield Neighbour("values", scaled(bench, sample, 20.0, [i]), 1.0)


def scaled(bench: Bench, sample: Sample, factor: float, which: Sequence[int] | None = None) -> Sample:
    """The inputs, or some of them, larger or smaller; numbers between 0 and 1, such as probabilities, stay there."""
    chosen = [i for i in sample.needed if i >= sample.fixed] if which is None else which
    words = "inputs" if which is None else " and ".join(sample.names[i] for i in which)
    tensors = [
        factor * (t + _jitter(bench, t, f"scale{i}")) if i in chosen and (factor < 1 or not in_unit_interval(t)) else t
        for i, t in enumerate(sample.tensors)
    ]
    return sample.with_tensors(f"{words} times {factor:g}", tensors)


def in_unit_interval(t: torch.Tensor) -> bool:
    return not t.is_complex() and t.numel() > 1 and bool(((t >= 0) & (t <= 1)).all())


def _jitter(bench: Bench, t: torch.Tensor, key: str) -> torch.Tensor:
    size = float(t.abs().double().mean()) if t.numel() else 0.0
    return 0.01 * (size + 1e-6) * bench.random_like(t, key).clamp(-2, 2) if not t.is_complex() else 0 * t


# --- sizes ----------------------------------------------------------------------------------------


def _first(sample: Sample) -> int | None:
    """The first input a gradient is wanted for that is no parameter of a module."""
    return next((i for i in sample.needed if i >= sample.fixed), None)


def _positions(sample: Sample) -> dict[int, list[Position]]:
    """Where each size occurs."""
    found: dict[int, list[Position]] = {}
    for i, t in enumerate(sample.tensors):
        if i < sample.fixed:
            continue
        for d, size in enumerate(t.shape):
            found.setdefault(size, []).append((i, d))
    return found


def resized(bench: Bench, sample: Sample, name: str, positions: Sequence[Position], size: int) -> Sample:
    """The sample with some dimensions of another size, filled with the author's values over and over."""
    tensors = list(sample.tensors)
    for i, d in positions:
        t = tensors[i]
        places = torch.arange(size, device=t.device) % max(t.shape[d], 1)
        tensors[i] = t.index_select(d, places) if t.shape[d] else t.new_zeros(_with_size(t.shape, d, size))
    grown = {i for i, _ in positions}
    return sample.with_tensors(
        name,
        [
            t + _jitter(bench, t, f"size{i}") if i in grown and is_float(t) and sample.needs[i] else t
            for i, t in enumerate(tensors)
        ],
    )


def _with_size(shape: torch.Size, d: int, size: int) -> list[int]:
    return [size if k == d else n for k, n in enumerate(shape)]


def _is_offsets(t: torch.Tensor) -> bool:
    """Where sequences begin and end, such as `cu_seqlens`: it cannot just be made longer."""
    return not is_float(t) and t.dim() == 1 and t.numel() > 1 and bool((t.diff() >= 0).all()) and int(t[0]) == 0


_MORE_SIZES = (2, 3, 8, 17, 33, 65)


def _sizes(bench: Bench) -> Iterator[Neighbour]:
    sample = bench.sample
    # Integers may point into what would be cut off, and a kernel need not look before it writes there.
    indexed = any(not is_float(t) and t.dtype != torch.bool for t in sample.tensors)
    for old, positions in _positions(sample).items():
        leading = all(d == 0 for _, d in positions) and (_first(sample), 0) in positions
        for new in dict.fromkeys((old + 1, 1, 2 * old + 3, 0, *(_MORE_SIZES if bench.thorough else ()))):
            if any(_is_offsets(sample.tensors[i]) for i, _ in positions):
                continue
            if new == old or (new == 0 and not leading) or (new < old and indexed):
                continue
            words = f"size {old} made {new}"
            kind = "empty" if new == 0 else "size"
            yield Neighbour(kind, resized(bench, sample, words, positions, new))
            structure = with_number(sample.structure, old, new)
            if new and structure is not None:
                yield Neighbour(kind, replace(resized(bench, sample, words, positions, new), structure=structure))


def _unequal(bench: Bench) -> Iterator[Neighbour]:
    """Sizes that are equal by coincidence made unequal, as far as the forward allows it."""
    sample = bench.sample
    if _is_raw(bench):
        bench.skip("unequal sizes", "the function hands memory to a kernel, which need not look before it reads")
        return
    for old, positions in _positions(sample).items():
        if len(positions) < 2 or len(positions) > 7 or old == 1:
            continue
        if any(not is_float(sample.tensors[i]) for i, _ in positions):
            continue
        count = len(positions)
        for mask in range(1, 2**count - 1 if count < 6 else 2 ** (count - 1)):
            chosen = [p for k, p in enumerate(positions) if mask >> k & 1]
            where = " and ".join(f"dim {d} of {sample.names[i]}" for i, d in chosen[:3])
            made = resized(bench, sample, f"{where} made {old + 2}", chosen, old + 2)
            if _all_used(bench, made, chosen, old):
                yield Neighbour("unequal sizes", made)


def _is_raw(bench: Bench) -> bool:
    """Whether the source speaks of pointers and kernels, or is not to be had."""
    text = source_text(bench.seen)
    return not text or _RAW.search(text) is not None


_RAW = re.compile(r"data_ptr|ctypes|triton|torch\.ops\.|load_inline|\b_C\b|\.cuda\b|as_strided")


def _all_used(bench: Bench, sample: Sample, positions: Sequence[Position], old: int) -> bool:
    """Whether what was added has a part in the output; if not, the forward only overlooks that the sizes disagree."""
    with sdpa_kernel(SDPBackend.MATH):  # the fast kernels of torch's attention do not compare the sizes of k and v
        before = bench.evaluate(sample)
    if before is None:
        return False
    for i, d in positions:
        tensors = list(sample.tensors)
        tensors[i] = tensors[i].clone()
        added = tensors[i].narrow(d, old, tensors[i].shape[d] - old)
        added += 0.1 * (1 + added.abs()) if is_float(added) else 0
        after = bench.evaluate(sample.with_tensors(sample.name, tensors))
        if after is None or all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(before, after, strict=False)):
            return False
    return True


def _dimensions(bench: Bench) -> Iterator[Neighbour]:
    sample = bench.sample
    first = _first(sample)
    if first is None:
        return
    for which, words in (([first], sample.names[first]), (range(len(sample.tensors)), "every input")):
        if words == "every input" and (len(sample.tensors) == 1 or sample.fixed):
            continue
        more = [
            torch.stack([t, t.roll(1, -1) if t.dim() else t]) if i in which else t for i, t in enumerate(sample.tensors)
        ]
        yield Neighbour("ndim", sample.with_tensors(f"{words} with one dimension more", more))
        if words != "every input" and all(sample.tensors[i].dim() > 1 and sample.tensors[i].shape[0] for i in which):
            fewer = [t[0].clone() if i in which else t for i, t in enumerate(sample.tensors)]
            yield Neighbour("fewer dimensions", sample.with_tensors(f"{words} with one dimension less", fewer))


def _indices(bench: Bench) -> Iterator[Neighbour]:
    """Integer inputs with repeated values, masks that are all on or all off."""
    sample = bench.sample
    for i, t in enumerate(sample.tensors):
        if is_float(t) or t.numel() == 0:
            continue
        tensors = list(sample.tensors)
        if t.dtype == torch.bool:
            for value, words in ((True, "all true"), (False, "all false")):
                tensors[i] = torch.full_like(t, value)
                kind = "index" if value else "all masked"
                yield Neighbour(kind, sample.with_tensors(f"{sample.names[i]} {words}", list(tensors)))
        else:
            tensors[i] = t.reshape(-1)[:1].expand(t.numel()).reshape(t.shape).clone()
            yield Neighbour("index", sample.with_tensors(f"{sample.names[i]} all equal", list(tensors)))
            tensors[i] = t.flip(-1) if t.dim() else t
            yield Neighbour("index", sample.with_tensors(f"{sample.names[i]} in reverse", list(tensors)))


def shrunk(bench: Bench, sample: Sample, most: int) -> Sample | None:
    """The sample cut to a few thousand elements, each size alike wherever it occurs; None if that cannot be run."""
    for limit in (8, 16, 32, 64):
        tensors = [t[tuple(slice(0, min(n, limit)) for n in t.shape)].clone() for t in sample.tensors]
        small = sample.with_tensors(f"cut to sizes of at most {limit}", tensors)
        trial = bench.run(small)
        if trial.ok and trial.finite and small.size <= most:
            return small
    return None
