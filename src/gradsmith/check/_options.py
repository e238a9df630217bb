"""The arguments that are no tensors, with other values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gradsmith.check._bench import Bench
from gradsmith.check._sample import Sample
from gradsmith.declare._tree import Structure

__all__ = ["other_options", "with_number"]


_CHOICES = ("mean", "sum", "none")


def other_options(bench: Bench) -> Iterator[Sample]:
    """Other values of the options that are no tensors, those left at their default too."""
    sample = bench.sample
    for place, value in enumerate(_constants(sample.structure)):
        for new in _other_values(value):
            words = f"option {value!r} made {new!r}"
            yield replace(sample, name=words, structure=_replaced(sample.structure, place, new))
    defaults = bench.subject.defaults(_count(sample.structure))
    for place, (name, value) in enumerate(defaults):
        for new in _other_values(value):
            given = [*[v for _, v in defaults[:place]], new]
            words = f"option {name}={value!r} made {new!r}"
            yield replace(sample, name=words, structure=_extended(sample.structure, given))


def _count(structure: Structure) -> int:
    """Positional arguments; too many where some are given by keyword, which may not be given again."""
    (args, kwargs) = structure[3]
    return len(args[3]) if not kwargs[3] else 10_000


def _extended(structure: Structure, values: list[Any]) -> Structure:
    kind, cls, keys, (args, kwargs) = structure
    more = (args[0], args[1], args[2], (*args[3], *[("=", v) for v in values]))
    return (kind, cls, keys, (more, kwargs))


def _other_values(value: Any) -> list[Any]:
    if type(value) is bool:
        return [not value]
    if type(value) is float and value:
        return [value * 1.5, value * 0.4]
    if type(value) is int and not isinstance(value, bool):
        return [value + 1, value - 1]
    if isinstance(value, str) and value in _CHOICES:
        return [c for c in _CHOICES if c != value]
    return []


def _constants(structure: Structure) -> list[Any]:
    if isinstance(structure, str):
        return []
    if structure[0] == "=":
        return [structure[1]]
    return [c for child in structure[3] for c in _constants(child)]


def _replaced(structure: Structure, place: int, new: Any) -> Structure:
    count = -1

    def walk(node: Structure) -> Structure:
        nonlocal count
        if isinstance(node, str):
            return node
        if node[0] == "=":
            count += 1
            return ("=", new) if count == place else node
        kind, cls, keys, children = node
        return (kind, cls, keys, tuple(walk(child) for child in children))

    return walk(structure)


def with_number(structure: Structure, old: int, new: int) -> Structure | None:
    """The structure with an integer option that is a size changed too; None where there is none."""
    changed = False

    def walk(node: Structure) -> Structure:
        nonlocal changed
        if isinstance(node, str):
            return node
        if node[0] == "=":
            value = node[1]
            if type(value) is int and value == old:
                changed = True
                return ("=", new)
            return node
        kind, cls, keys, children = node
        return (kind, cls, keys, tuple(walk(child) for child in children))

    made = walk(structure)
    return made if changed else None
