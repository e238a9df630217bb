"""Calls to try, best first: as the package itself calls, as names and types say, in families of shapes, at random."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

from gradsmith.reach.inputs.search._draft import Draft, reshaped
from gradsmith.reach.inputs.search._index import UNKNOWN, Argument, CallSite, SourceIndex
from gradsmith.reach.inputs.search._mend import about, mended
from gradsmith.reach.inputs.search._names import by_annotation, likely, told
from gradsmith.reach.inputs.search._objects import objects_of
from gradsmith.reach.inputs.search._signature import Parameter, parameters_of
from gradsmith.reach.inputs.search._values import Literal, Tensor, Value

__all__ = ["proposals"]

_SHAPES = ((3, 4), (2, 3, 4, 4), (4, 4), (2, 3, 4), (5,), (2, 4, 8), (1, 1, 8, 8), (), (2, 3, 4, 4, 4))
_FAMILIES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4), (4, 5)),
    ((3, 4), (5, 4)),
    ((3, 4), (4,)),
    ((3, 4), (3,)),
    ((2, 3, 4, 4), (3,)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 8, 8), (4, 3, 3, 3)),
    ((2, 3, 8), (4, 3, 3)),
    ((3, 4), (5, 4), (5,)),
    ((3, 4), (4, 5), (5,)),
    ((3, 4), (4,), (4,)),
    ((2, 3, 4, 4), (3,), (3,)),
    ((2, 3, 8, 8), (4, 3, 3, 3), (4,)),
    ((2, 5, 4), (2, 6, 4), (2, 6, 4)),
    ((3, 4), (3, 5), (5, 4), (5, 5)),
    ((2, 3, 4, 4), (3,), (3,), (3,), (3,)),
    ((3, 4), (4,), (4,), (4,), (4,)),
)
_FILLERS: tuple[Value, ...] = (Literal(0.5), Literal(1), Literal(None), Literal(True), Literal(-1), Literal(2))
_KINDS = ("positive", "unit", "simplex", "definite", "complex")
_FAR: tuple[Value, ...] = (
    Tensor(),
    Literal(0.5),
    Literal(1),
    Literal(None),
    Literal(True),
    Tensor("positive", ()),
    Tensor("index"),
    Literal((2, 2)),
    Tensor("mask"),
    Literal("mean"),
    Literal(lambda x, *_: x, "lambda x, *_: x"),
)
_MOST_SITES = 4
_WRONG_TYPE = re.compile(r"'(?:int|float|bool|str|NoneType|function)' object (?:has no|is not)")
_DEPTH = 4  # a mend of a mend of a mend ...
_MENDS = 12


def proposals(subject: Any, name: str, index: SourceIndex) -> Generator[Draft, str, None]:
    """Drafts of calls. What went wrong with one is sent back, and the next ones heed it; each is told once."""
    seen: set[tuple[str, ...]] = set()
    module = str(getattr(subject, "__module__", ""))
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    words = index.words(file)
    waiting: deque[tuple[str, Draft, Iterator[Draft]]] = deque()  # mends, with the draft and the error they are for
    learned: dict[tuple[int, str], Value] = {}  # for a value that is refused in a place, one that is not
    short = name.rpartition(".")[2].rpartition("::")[2]
    plan = _plan(parameters_of(subject), _nearest(index.call_sites(short), file), module)
    while True:
        parent = waiting[0][1] if waiting else None
        draft = next(waiting[0][2], None) if waiting else next(plan, None)
        if draft is None:
            if not waiting:
                return
            waiting.popleft()
            continue
        draft = _with(draft, learned)
        if draft.code() in seen:
            continue
        seen.add(draft.code())
        error = yield draft
        if not error or (parent is not None and _misfits(draft, parent, error)):
            continue
        gist = _gist(draft, error)
        if parent is not None and gist != waiting[0][0]:
            learned.update(_exchange(draft, parent, waiting[0][0]))
        if len(waiting) < _DEPTH and all(gist != met for met, *_ in waiting):
            waiting.appendleft((gist, draft, itertools.islice(mended(draft, error, words, module), _MENDS)))


def _with(draft: Draft, learned: dict[tuple[int, str], Value]) -> Draft:
    for place, value in enumerate(draft.args):
        draft = draft.with_arg(place, learned.get((place, value.code()), value))
    return draft


def _exchange(draft: Draft, parent: Draft, error: str) -> dict[tuple[int, str], Value]:
    """The value that took another's place, where the error was about that alone."""
    blamed = about(parent, error)
    if len(blamed) != 1 or len(draft.args) != len(parent.args):
        return {}
    old, new = parent.args[blamed[0]], draft.args[blamed[0]]
    return {(blamed[0], old.code()): new} if isinstance(old, Literal) and isinstance(new, Literal) else {}


def _misfits(draft: Draft, parent: Draft, error: str) -> bool:
    """Whether the error is that a value which was just put in is of the wrong type."""
    if not _WRONG_TYPE.search(error) or len(draft.args) != len(parent.args):
        return False
    return any(draft.args[i].code() != parent.args[i].code() for i in about(draft, error))


def _nearest(sites: list[CallSite], file: str) -> list[CallSite]:
    """Those in the file that defines it first: elsewhere the name may be that of another."""
    return sorted(sites, key=lambda site: site.file != file)


def _gist(draft: Draft, error: str) -> str:
    """An error without the words it was given: of another word it would say the same."""
    words = (v.value for v in draft.args if isinstance(v, Literal) and isinstance(v.value, str))
    return functools.reduce(lambda text, word: text.replace(word, "..."), filter(None, words), error)


def _plan(parameters: list[Parameter], sites: list[CallSite], module: str) -> Iterator[Draft]:
    options = [_options(p, module) for p in parameters if not p.variadic]
    required = sum(not p.has_default for p in parameters if not p.variadic)
    bases = [_of_site(site, parameters, module) for site in sites[:_MOST_SITES]]
    yield from (named for base in bases if (named := _by_layer(base)) is not None)
    for first in _SHAPES[:3]:
        yield from (base.shaped(first) for base in bases)
    signatures = list(_of_signature(parameters, options, required))
    for shape in _SHAPES:
        yield from (base.shaped(shape) for base in signatures[:1])
    yield from (base.shaped(shape) for shape in _SHAPES[3:] for base in bases)
    for base in (*bases[:1], *signatures[:2]):
        if (named := _by_layer(base)) is not None:
            yield named
        yield from (made for family in _FAMILIES if (made := base.coupled(family)) is not None)
    for base in (*bases[:1], *signatures):
        yield from _varied(base, options)
    count = max(required, 1)
    yield from (Draft((Tensor(),) * count).shaped(shape) for shape in _SHAPES[:3])
    yield from (Draft((Tensor(), *(filler,) * (count - 1))) for filler in _FILLERS)
    for base in (*bases[:1], *signatures[:1]):
        yield from (base.of_kind(kind).shaped(shape) for kind in _KINDS for shape in ((3, 4), (4, 4)))
    if 0 < count <= 4:
        yield from (Draft((Tensor(), *rest)).shaped((3, 4)) for rest in itertools.product(_FAR, repeat=count - 1))
    yield from (Draft((value, *(Tensor(),) * (count - 1))).shaped((3, 4)) for value in _FAR[1:])


def _by_layer(base: Draft) -> Draft | None:
    """Shapes told from names: a batch of 3, 4 features in, 5 out; None where no name speaks of weights."""
    if not any("weight" in name for name in base.names):
        return None
    made = base
    for place in base.tensors:
        name = base.names[place] if place < len(base.names) else ""
        shape = (3, 4) if place == 0 else (3, 5)
        if "weight" in name:
            shape = (5, 5) if re.search(r"rec|hh|hidden", name) else (5, 4)
        made = made.with_arg(place, reshaped(base.args[place], (5,) if "bias" in name else shape))
    return made


def _options(p: Parameter, module: str) -> tuple[Value, ...]:
    records = tuple(objects_of(p.annotation, module)) if p.annotation else ()
    return (*records, *likely(p.name, p.annotation, p.default, p.has_default))


def _of_signature(parameters: list[Parameter], options: list[tuple[Value, ...]], required: int) -> Iterator[Draft]:
    """All parameters, those with defaults left out, and one to three tensors where any number is taken."""
    names = tuple(p.name for p in parameters if not p.variadic)
    first = tuple(o[0] for o in options)
    if first and not any(isinstance(v, Tensor) for v in first):  # something must carry the gradient
        first = (Tensor(), *first[1:])
    variadic = any(p.variadic for p in parameters)
    if first:
        yield Draft(first, names=names)
    if required < len(first):
        yield Draft(first[:required], names=names)
    if variadic:
        yield from (Draft((*first, *(Tensor(),) * more)) for more in (1, 2, 3))


def _of_site(site: CallSite, parameters: list[Parameter], module: str) -> Draft:
    named = [p.name for p in parameters if not p.variadic]
    args: list[Value] = []
    for argument in site.args:
        if argument.starred:
            args += [Tensor()] * max(len(named) - len(site.args) + 1, 1)
            continue
        place = len(args)
        args.append(_of_argument(argument, parameters[place] if place < len(named) else None, module, first=not args))
    args = args if any(isinstance(a, Tensor) for a in args) else [Tensor(), *args[1:]]
    kwargs = {k: _of_argument(a, None, module, first=False) for k, a in site.kwargs.items()}
    return Draft(tuple(args), kwargs, "call site", f"{site.file}:{site.line}", tuple(named))


def _of_argument(argument: Argument, parameter: Parameter | None, module: str, *, first: bool) -> Value:
    """What the package passes; a name it passes tells as much as the name of the parameter."""
    if argument.value is not UNKNOWN:
        return Literal(argument.value)
    if argument.name == "shape":
        return Literal("shape")
    if records := [
        *objects_of(argument.annotation, module),
        *objects_of(parameter.annotation if parameter else "", module),
    ]:
        return records[0]
    names = [argument.name, parameter.name if parameter is not None else ""]
    annotation = (
        argument.annotation if by_annotation(argument.annotation) else parameter.annotation if parameter else ""
    )
    said = told(names, annotation)
    if first and not annotation:
        return next((v for v in said if isinstance(v, Tensor)), Tensor())
    return said[0] if said else Tensor()


def _varied(base: Draft, options: list[tuple[Value, ...]]) -> Iterator[Draft]:
    """One argument at a time another of its candidates; then two."""
    places = [(i, v) for i, values in enumerate(options[: len(base.args)]) for v in (*values[1:], *_FILLERS[:3])]
    for i, value in places:
        yield base.with_arg(i, value).shaped((3, 4))
    for (i, a), (j, b) in itertools.combinations(places[:16], 2):
        if i != j:
            yield replace(base.with_arg(i, a).with_arg(j, b)).shaped((3, 4))
