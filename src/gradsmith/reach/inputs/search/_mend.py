"""What an error says about the arguments: other drafts that heed it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch

from gradsmith.reach.inputs.search._draft import Draft, reshaped
from gradsmith.reach.inputs.search._names import by_name
from gradsmith.reach.inputs.search._objects import objects_of, objects_with
from gradsmith.reach.inputs.search._values import Literal, Tensor, Value

__all__ = ["about", "mended"]

# By the number of dimensions.
_BY_RANK: dict[int, tuple[tuple[int, ...], ...]] = {
    0: ((),),
    1: ((5,),),
    2: ((3, 4), (4, 4)),
    3: ((2, 3, 4), (2, 4, 8)),
    4: ((2, 3, 4, 4), (1, 1, 8, 8)),
    5: ((2, 3, 4, 4, 4),),
}
_FILTERS = ((1, 1, 3, 1), (1, 1, 1, 3), (1, 1, 4, 1), (1, 1, 1, 4), (4, 3, 3, 3))
_OF_A_MODULE = ("forward", "parameters", "training", "train", "eval", "modules", "named_parameters", "state_dict")
_MOST_OBJECTS = 4
_ORDINALS: tuple[Value, ...] = (Literal(0), Literal(1))
_NUMBERS: tuple[Value, ...] = (Literal(1), Literal(0.5), Literal(2), Literal(-1), Literal(None), Literal(True))
_RANK = (
    r"\b(?:expected|must be|should be|requires?|only|got|a|to be|support\w*)\D{0,30}?\b(\d)[- ]?D\b",
    r"\b(\d)[- ]?D (?:tensor|input|\()",
    r"(?:expected|requires?|with) (\d) dim",
    r"not enough values to unpack \(expected (\d)",
    r"too many values to unpack \(expected (\d)",
    r"dim(?:ension)?s? ?(?:==|of|must be|should be) ?(\d)",
)
_WANTS_TENSOR = (
    r"must be (?:either )?(?:an? )?(?:torch\.)?Tensor|can only save variables|"
    r"'(?:float|int|bool|str|tuple)' object (?:has no attribute|is not subscriptable)|"
    r"not (?:float|int|bool)"
)
_WANTS_NUMBER = (
    r"interpreted as an integer|only integer|Boolean value of Tensor|Python scalars?|not Tensor|scalar type|must be "
    r"(?:an? )?(?:int|float|bool|number|str|real)|converted to Scalar|unhashable|"
    r"a Tensor with \d+ elements|'Tensor' and"
)
_WANTS_INDEX = (
    r"scalar type (?:Long|Int)|indices must be|tensors used as indices|dtype (?:of )?int64|expected .*index|"
    r"to be (?:Long|int)"
)


def mended(draft: Draft, error: str, words: Iterable[str] = (), module: str = "") -> Iterator[Draft]:
    """Drafts that do what the error asks for; none where it asks for nothing that is understood.

    Args:
        draft: What raised it.
        error: Its type and text.
        words: What options are compared with in the source.
        module: Where the function is from; objects an argument may have to be are looked for beside it.
    """
    blamed = about(draft, error)
    understood = False
    for made in _understood(draft, error, words, module, blamed):
        understood = True
        yield made
    if not understood and len(blamed) == 1 and blamed[0]:  # whatever it is that does not suit
        yield from _exchanged(draft, _is_tensor, _NUMBERS, blamed)


def _understood(
    draft: Draft, error: str, words: Iterable[str], module: str, blamed: tuple[int, ...]
) -> Iterator[Draft]:
    if missing := re.search(r"'Tensor' object has no attribute '(\w+)'", error):
        records = list(objects_with(missing[1], module))[:_MOST_OBJECTS]
        if missing[1] in _OF_A_MODULE:
            records += [Literal(torch.nn.Tanh(), "torch.nn.Tanh()")]
        for record in records:
            yield from _exchanged(draft, _is_tensor, (record,), blamed)
    if re.search(
        r"gradients? (?:with respect|w\.r\.t|for|of)|not differentiable|requires?_grad|needs_input_grad", error
    ):
        yield from _fewer(draft)
    yield from _ranks(draft, error, blamed)
    yield from _sizes(draft, error, blamed)
    yield from _strings(draft, error, words, blamed)
    if given := re.search(r"different than None at position (\d+), but the corresponding forward input", error):
        yield draft.with_arg(int(given[1]) - 1, Tensor("positive", ()))
    if "NoneType" in error:
        yield from _exchanged(
            draft, lambda v: isinstance(v, Literal) and v.value is None, (Tensor(), Literal(1)), blamed
        )
    if re.search(_WANTS_TENSOR, error):
        yield from _exchanged(draft, _is_number, (Tensor("positive", ()), Tensor()), blamed)
    if re.search(_WANTS_INDEX, error):
        yield from _exchanged(draft, _is_tensor, (Tensor("index"), Tensor("index", (3,))), blamed)
    if re.search(r"bool(?:ean)? tensor|masked_fill only|dtype (?:of )?(?:torch\.)?bool", error):
        yield from _exchanged(draft, _is_tensor, (Tensor("mask"), Literal(None)), blamed)
    if re.search(_WANTS_NUMBER, error):
        yield from _exchanged(draft, _is_tensor, _NUMBERS, blamed)
    if "tensor has no dimensions" in error or "0-d" in error:
        yield from _exchanged(
            draft, lambda v: isinstance(v, Tensor) and not v.shape, (Tensor("positive", (1, 1)),), blamed
        )
    if "not callable" in error:
        yield from _exchanged(draft, lambda v: True, (Literal(lambda x, *_: x, "lambda x, *_: x"),), blamed)
    if re.search(r"positive[- ]definite|symmetric|square|singular|cholesky", error, re.IGNORECASE):
        yield draft.of_kind("definite").shaped((4, 4))
        yield draft.shaped((4, 4))
    if re.search(r"complex", error, re.IGNORECASE):
        yield draft.of_kind("complex")
    if re.search(r"(?:increasing|decreasing|monoton|sorted)", error):
        yield from _exchanged(draft, _is_tensor, (Tensor("increasing", (5,)),), blamed)
    if re.search(r"<= ?1\b|\[0, ?1\]|between 0 and 1|probabilit", error):
        yield draft.of_kind("unit")
        yield draft.of_kind("simplex")
    yield from _arity(draft, error)
    for place in blamed:  # another object of the same class
        held = draft.args[place]
        if isinstance(held, Literal) and held.text.startswith("importlib"):
            yield from (draft.with_arg(place, made) for made in objects_of(type(held.value).__name__, module))


def about(draft: Draft, error: str) -> tuple[int, ...]:
    """The places of the arguments an error is about: those it calls by name, else those the failing line speaks of."""
    text, _, told = error.partition(" [argument ")
    named = (i for i, name in enumerate(draft.names) if len(name) > 1 and re.search(rf"\b{re.escape(name)}\b", text))
    places = tuple(named) or tuple(int(place) for place in re.findall(r"\d+", told))
    return tuple(place for place in places if place < len(draft.args))


def _arity(draft: Draft, error: str) -> Iterator[Draft]:
    if most := re.search(r"forward\(\) takes (?:from \d+ to )?(\d+) positional arguments? but \d+", error):
        yield replace(draft, args=draft.args[: int(most[1]) - 1])
    if missing := re.search(r"forward\(\) missing (\d+) required positional", error):
        yield replace(draft, args=(*draft.args, *(Tensor(),) * int(missing[1])))


def _ranks(draft: Draft, error: str, blamed: tuple[int, ...]) -> Iterator[Draft]:
    for pattern in _RANK:
        for found in re.finditer(pattern, error):
            for shape in _BY_RANK.get(int(found[1]), ()):
                if blamed:
                    yield _all_reshaped(draft, blamed, shape)
                yield _reshaped(draft, shape)
    if most := re.search(r"too many indices for tensor of dimension (\d)", error):
        yield from (_reshaped(draft, s) for rank in (1, 2) for s in _BY_RANK.get(int(most[1]) + rank, ())[:1])
    if "tuple index out of range" in error or ("out of range" in error and "dimension" in error.lower()):
        yield _reshaped(draft, (2, 3, 4))
        yield _reshaped(draft, (2, 3, 4, 4))


def _all_reshaped(draft: Draft, places: tuple[int, ...], shape: tuple[int, ...]) -> Draft:
    made = draft
    for place in places:
        made = made.with_arg(place, reshaped(made.args[place], shape))
    return made


def _reshaped(draft: Draft, shape: tuple[int, ...]) -> Draft:
    plain = tuple(
        replace(v, shape=Tensor().shape) if isinstance(v, Tensor) and v.shape not in ((), (1,)) else v
        for v in draft.args
    )
    return replace(draft, args=plain).shaped(shape)


def _sizes(draft: Draft, error: str, blamed: tuple[int, ...]) -> Iterator[Draft]:
    """Sizes that must agree, or have a certain value."""
    shape = next((v.shape for v in draft.args if isinstance(v, Tensor)), ())
    if (beyond := re.search(r"index .* out of (?:bounds|range).*dimension (\d+)", error)) and int(beyond[1]) < len(
        shape
    ):
        yield _reshaped(draft, tuple(8 if i == int(beyond[1]) else n for i, n in enumerate(shape)))
    for found in re.finditer(r"last dim\w*\D{0,40}?(\d+)|shape\[-1\] ?== ?(\d+)|size\(-1\) ?== ?(\d+)", error):
        last = int(next(filter(None, found.groups())))
        if shape and 0 < last < 64:
            yield _reshaped(draft, (*shape[:-1], last))
    if re.search(r"divisible|even\b|power of (?:2|two)", error):
        yield _reshaped(draft, tuple(8 for _ in shape) or (8,))
    if re.search(
        r"must match|shapes? cannot be|size mismatch|not broadcastable|inconsistent|does not match|be broadcast", error
    ):
        yield _reshaped(draft, (4, 4))  # in squares nearly everything fits
        places = [i for i in blamed if i in draft.tensors] or draft.tensors[1:]
        for other in (shape[-1:], shape[:1], shape[1:2], (1, *shape[1:]), (*shape[:-1], 1), (), (1,)):
            for place in places:
                yield draft.with_arg(place, reshaped(draft.args[place], other))
            if len(places) > 1:
                yield _all_reshaped(draft, tuple(places), other)
    if re.search(r"same number of dimensions as", error):  # an index for gather
        indices = tuple(i for i, v in enumerate(draft.args) if isinstance(v, Tensor) and v.kind == "index")
        yield _all_reshaped(draft, indices, (*shape[:-1], 1))
    if re.search(r"[Kk]ernel size|[Oo]utput size is too small", error):
        yield _reshaped(draft, (1, 1, 8, 8))
        filters = tuple(i for i, v in enumerate(draft.args) if isinstance(v, Tensor) and v.kind == "filter")
        for sizes in _FILTERS:
            yield _all_reshaped(_reshaped(draft, (2, 3, 8, 8)), filters or tuple(draft.tensors[1:]), sizes)


def _fewer(draft: Draft) -> Iterator[Draft]:
    """Not every tensor requires grad: only one, or all but one."""
    for chosen in draft.tensors:
        for others in (True, False):
            made = draft
            for place in draft.tensors:
                still = (place != chosen) if others else (place == chosen)
                made = made.with_arg(place, _stilled(draft.args[place], still))
            yield made


def _stilled(value: Value, still: bool) -> Value:
    return replace(value, still=still) if isinstance(value, Tensor) else value


def _strings(draft: Draft, error: str, told: Iterable[str], blamed: tuple[int, ...]) -> Iterator[Draft]:
    """Legal values that an error lists, and those the source compares options with, where it is about one in use."""
    used = [v.value for v in draft.args if isinstance(v, Literal) and isinstance(v.value, str)]
    words = re.findall(r"['\"]([A-Za-z][\w-]{0,30})['\"]", error)
    listed = re.search(r"(?:[Aa]vailable|one of|supported|valid|choose from|expected)\W+([\w\-, ]+)", error)
    if "invalid combination of arguments" in error or not (used or (listed and blamed)):
        return
    if listed:
        words += [w for w in re.split(r"[,\s]+|\bor\b|\band\b", listed[1]) if re.fullmatch(r"[A-Za-z][\w-]+", w)]
    if any(word in error for word in used):
        words += told
        yield from _exchanged(draft, _is_string, _ORDINALS, blamed)
    for word in dict.fromkeys(words):
        if word in ("Tensor", "NoneType", "float", "int", "str", "bool"):
            continue
        yield from _exchanged(draft, _is_string if used else lambda v: True, (Literal(word),), blamed)


def _is_tensor(value: Value) -> bool:
    return isinstance(value, Tensor)


def _is_string(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, str)


def _is_number(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, (int, float, tuple))


def _exchanged(
    draft: Draft, fits: Callable[[Value], bool], values: tuple[Value, ...], blamed: tuple[int, ...]
) -> Iterator[Draft]:
    """One argument at a time exchanged: one that is blamed, else any but the first; what its name says comes first."""
    shape = next((v.shape for v in draft.args if isinstance(v, Tensor)), Tensor().shape)
    fitting = [place for place, old in enumerate(draft.args) if fits(old)]
    places = [place for place in fitting if place in blamed] or [place for place in fitting if place]
    options = {place: (*_named(draft, place), *values) if values is _NUMBERS else values for place in places}
    telling = {place: choices for place, choices in options.items() if len(choices) > len(values)}
    for choices in (telling, {place: c for place, c in options.items() if place not in telling}):
        for turn in range(max(map(len, choices.values()), default=0)):
            for place, values_of in choices.items():
                if turn < len(values_of) and draft.args[place].code() != values_of[turn].code():
                    yield draft.with_arg(place, values_of[turn]).shaped(shape)


def _named(draft: Draft, place: int) -> tuple[Value, ...]:
    """What the name of an argument says it is, where it says that it is no tensor."""
    said = by_name(draft.names[place]) if place < len(draft.names) else ()
    return tuple(v for v in said if isinstance(v, Literal)) if said and isinstance(said[0], Literal) else ()
